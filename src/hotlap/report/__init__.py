"""Reports: `content.py` builds a document and its sections once; terminal, markdown, html and trace render them."""
