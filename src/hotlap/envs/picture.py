"""How a game shows one state: lines of styled text, for terminals and for HTML."""

Picture = list[list[tuple[str, str]]]  # lines of (text, style); a style is made of Rich's words, such as "bold red"; "": plain


def plain(picture: Picture) -> str:
    """The text alone."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in picture)
