"""Which interventions test a finding: one small function per cause, fixes before bounds."""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hotlap.causes.evidence import Evidence, Look
from hotlap.core import stages
from hotlap.interventions import batching, rewrite
from hotlap.interventions.code import Code
from hotlap.interventions.edit import Edits
from hotlap.interventions.intervention import Intervention
from hotlap.interventions.knobs import Knob, find
from hotlap.record.finding import Finding


@dataclass(frozen=True)
class Context:
    """What is known about the target."""

    evidence: Evidence
    codes: Mapping[str, Code]  # the files as they are now
    knobs: Sequence[Knob]

    def edited(
        self, finding: Finding, title: str, edit: Callable[[Code, int], Edits], bound: bool = False
    ) -> list[Intervention]:
        """An edit of the line that a finding blames."""
        file, _, line = (finding.where or "").rpartition(":")
        if file not in self.codes or not (edits := edit(self.codes[file], int(line))):
            return []
        return [Intervention(title, edits={file: tuple(edits)}, bound=bound)]

    def edited_all(self, title: str, edit: Callable[[Code], Edits], learning: bool = False) -> list[Intervention]:
        """An edit wherever it fits."""
        found = {file: tuple(edits) for file, code in self.codes.items() if (edits := edit(code))}
        return [Intervention(title, edits=found, learning=learning)] if found else []

    def scaled(self, name: str, value: float, new: int) -> list[Intervention]:
        """A number of the recipe: by its flag, or where the code has it."""
        title = f"{value:g} becomes {new}"
        if (knob := find(self.knobs, name)) is not None:
            return [
                Intervention(f"{knob.flag} {new} instead of {knob.default or f'{value:g}'}", learning=True, **knob.set(new))
            ]
        return self.edited_all(title, lambda code: rewrite.number(code, name, value, lambda _: str(new)), learning=True)


Remedy = Callable[[Context, Finding], list[Intervention]]


def switch(title: str, name: str, bound: bool = False, **options: object) -> Intervention:
    return Intervention(title, ((name, options),), bound=bound)


def _recorded(c: Context, f: Finding) -> list[Intervention]:
    return c.edited(f, f"{_function(c, f)} returns recorded results", rewrite.recorded, bound=True)


def _function(c: Context, f: Finding) -> str:
    file, _, line = (f.where or "").rpartition(":")
    found = c.codes[file].function(int(line)) if file in c.codes else None
    return f"{found.name}()" if found else "it"


def python_loop(c: Context, f: Finding) -> list[Intervention]:
    if c.evidence.is_system:
        return [Intervention("turbo", config={"turbo": True})]
    return [*c.edited(f, f"{_function(c, f)} compiled with Numba", rewrite.jitted), *_recorded(c, f)]


def sleep(c: Context, f: Finding) -> list[Intervention]:
    return [*c.edited(f, "without the sleep", rewrite.left_out), switch("time.sleep skipped", "sleep-off", bound=True)]


def render(c: Context, f: Finding) -> list[Intervention]:
    return [switch("nothing is drawn", "render-off", bound=True)]


def wrappers(c: Context, f: Finding) -> list[Intervention]:
    own = {
        node.name
        for code in c.codes.values()
        for node in ast.walk(code.tree)
        if isinstance(node, ast.ClassDef) and any("Wrapper" in ast.unparse(base) for base in node.bases)
    }
    return [Intervention(f"without {', '.join(sorted(own))}", (("peel", {"names": sorted(own)}),), bound=True)] if own else []


def payload(c: Context, f: Finding) -> list[Intervention]:
    return [*one_process(c, f), Intervention("infos are empty", (("infos-empty", {}),), bound=True)]


def one_process(c: Context, f: Finding) -> list[Intervention]:
    if c.evidence.is_system:
        return [Intervention("environments in one process", config={"workers": 0})]
    names = {"SubprocVecEnv": "DummyVecEnv", "AsyncVectorEnv": "SyncVectorEnv", "ParallelEnv": "SerialEnv"}
    patch = c.edited_all("environments in one process", lambda code: rewrite.renamed(code, names))
    return patch or [switch("environments in one process", "one-process")]


def worker_processes(c: Context, f: Finding) -> list[Intervention]:
    if c.evidence.is_system:
        return [Intervention("environments in worker processes", config={"workers": int(c.evidence.cores)})]
    names = {"DummyVecEnv": "SubprocVecEnv", "SyncVectorEnv": "AsyncVectorEnv", "SerialEnv": "ParallelEnv"}
    patch = c.edited_all("environments in worker processes", lambda code: rewrite.renamed(code, names))
    return patch or [switch("environments in worker processes", "workers")]


def no_grad(c: Context, f: Finding) -> list[Intervention]:
    return c.edited(f, "acting without gradients", rewrite.no_grad)


def validate_off(c: Context, f: Finding) -> list[Intervention]:
    patch = c.edited_all("distributions do not check", rewrite.validate_off)
    return patch[:1] or [switch("distributions do not check", "validate-off")]


def push_item(c: Context, f: Finding) -> list[Intervention]:
    return [
        *c.edited(f, "transitions stored in one go", batching.batched_pushes),
        *c.edited(f, "numbers read in one go before the loop", rewrite.hoisted_items),
        *c.edited(f, "the loop skipped", rewrite.skipped_loop, bound=True),
    ]


def list_to_tensor(c: Context, f: Finding) -> list[Intervention]:
    return c.edited(f, "lists become arrays first", rewrite.stacked_tensor)


def gae_loop(c: Context, f: Finding) -> list[Intervention]:
    if f.where is None:
        return [switch("advantages by hotlap's kernel", "gae-kernel")]
    return [*c.edited(f, "the loop over numpy's views", rewrite.numpy_loop), *skipped_loop(c, f)]


def skipped_loop(c: Context, f: Finding) -> list[Intervention]:
    return c.edited(f, "the loop skipped", rewrite.skipped_loop, bound=True)


def anomaly_off(c: Context, f: Finding) -> list[Intervention]:
    return c.edited_all("autograd's debug mode off", rewrite.anomaly_off) or [
        switch("autograd's debug mode off", "anomaly-off")
    ]


def param_loops(c: Context, f: Finding) -> list[Intervention]:
    return [switch("optimizers take all tensors at once", "foreach"), *skipped_loop(c, f)]


def float32(c: Context, f: Finding) -> list[Intervention]:
    changed = Intervention("float32", (("float32", {}),), learning=True)
    return [*c.edited_all("float32", rewrite.float32, learning=True), changed]


def minibatch(c: Context, f: Finding) -> list[Intervention]:
    old, times = f.numbers.get("minibatch", 0.0), f.numbers.get("times", 4.0)
    if not old:
        return []
    number = find(c.knobs, r"^(num|n)_?mini_?batch")
    if number and (number.default or "").isdigit():  # so many minibatches: fewer are larger
        new = max(1, int(number.default or 1) // round(times))
        return [Intervention(f"{number.flag} {new} instead of {number.default}", learning=True, **number.set(new))]
    return c.scaled(r"^(?!num_|n_)\w*(mini_?batch|batch_?size)", round(old), _power(old * times))


def _power(value: float) -> int:
    """The next power of two."""
    return 1 << max(0, round(value) - 1).bit_length()


def fewer_updates(c: Context, f: Finding) -> list[Intervention]:
    times = int(f.numbers.get("times", 4))
    if (knob := find(c.knobs, r"updates?_per|gradient_steps|utd|replay_ratio|num_updates|train_iters")) and (
        knob.default or ""
    ).isdigit():
        new = max(1, int(knob.default or 1) // times)
        return [Intervention(f"{knob.flag} {new} instead of {knob.default}", learning=True, **knob.set(new))]
    for file, code in c.codes.items():
        for line in _learning_lines(c.evidence, file):
            if edits := rewrite.fewer_rounds(code, line, times):
                return [Intervention(f"{times} times fewer updates", edits={file: tuple(edits)}, learning=True)]
    return c.edited_all(
        f"{times} times fewer updates",
        lambda code: rewrite.number(
            code, r"gradient_steps|updates_per", f.numbers.get("per_call", 0.0), lambda old: f"max(1, {old} // {times})"
        ),
        learning=True,
    )


def _learning_lines(e: Evidence, file: str) -> list[int]:
    """Lines of a file that learning passes through and environments do not, the innermost first."""

    def lines(test: Callable[[Look], bool]) -> dict[int, int]:
        found: dict[int, int] = {}
        for look in e.looks:
            if test(look):
                for depth, frame in enumerate(look.frames):
                    if frame.own and frame.file == file:
                        found[frame.line] = max(found.get(frame.line, 0), depth)
        return found

    learning = lines(lambda look: look.stage.startswith((stages.UPDATE, stages.SAMPLE)))
    collecting = lines(lambda look: look.stage.startswith("collect"))
    return sorted((line for line in learning if line not in collecting), key=lambda line: -learning[line])


def narrower(c: Context, f: Finding) -> list[Intervention]:
    widths = sorted({net["widest"] for net in c.evidence.facts.get("nets", []) if net["widest"]}, reverse=True)
    if c.evidence.is_system and widths:
        layers = [min(units, max(64, widths[0] // 8)) for units in c.evidence.config["hidden"]]
        return [Intervention(f"layers of {layers} units", config={"hidden": layers}, learning=True)]
    return c.scaled(r"hidden|width|units|net_arch|dim", widths[0], max(64, widths[0] // 8)) if widths else []


def more_envs(c: Context, f: Finding) -> list[Intervention]:
    old = f.numbers.get("num_envs", 1)
    return c.scaled(r"num_envs|n_envs|num_env|n_env", old, min(32, max(8, old * 16)))


def threads(c: Context, f: Finding) -> list[Intervention]:
    if f.stage == "collect/wait":
        variables = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        return [Intervention("one thread per process", environment=variables)]
    number = 1 if f.cause == "torch-oversubscribe" else max(1, int(c.evidence.cores))
    title = f"{number} thread{'s' if number > 1 else ''} for torch"
    if c.evidence.is_system:
        return [Intervention(title, config={"torch_threads": number})]
    patch = c.edited_all(title, lambda code: rewrite.threads(code, number))
    return [*patch[:1], switch(title, "threads", number=number)]


def cv2(c: Context, f: Finding) -> list[Intervention]:
    return [switch("OpenCV without threads", "cv2-threads", number=0)]


def quiet(c: Context, f: Finding) -> list[Intervention]:
    return [
        *c.edited(f, "logging ten times rarer", rewrite.rarer_condition),
        *c.edited(f, "without that line", rewrite.left_out),
        switch("loggers write nothing", "logs-off", bound=True),
    ]


def evaluate(c: Context, f: Finding) -> list[Intervention]:
    return [
        *c.edited(f, "evaluation ten times rarer", rewrite.rarer_condition),
        *c.edited(f, f"{_function(c, f)} ten times rarer", rewrite.rarer, bound=True),
        *c.edited_all(
            "evaluation ten times rarer",
            lambda code: rewrite.number(code, r"eval_(freq|every|interval)", None, lambda n: f"{n} * 10"),
        ),
        switch("evaluation ten times rarer", "evaluation-rarer", bound=True, times=10),
    ]


def checkpoint(c: Context, f: Finding) -> list[Intervention]:
    return [
        *c.edited(f, "saving ten times rarer", rewrite.rarer_condition),
        switch("nothing is saved", "checkpoints-off", bound=True),
    ]


def detached(c: Context, f: Finding) -> list[Intervention]:
    return c.edited(f, "stored without its graph", rewrite.detached)


def flush_off(c: Context, f: Finding) -> list[Intervention]:
    return [*c.edited(f, "without that line", rewrite.left_out), switch("memory is left alone", "flush-off", bound=True)]


def on_cpu(c: Context, f: Finding) -> list[Intervention]:
    return [Intervention("on the CPU", environment={"CUDA_VISIBLE_DEVICES": ""})]


def compiled(c: Context, f: Finding) -> list[Intervention]:
    return [switch("networks compiled", "compile"), switch("fused optimizers", "foreach", fused=True)]


def mixed(c: Context, f: Finding) -> list[Intervention]:
    cast = Intervention("autocast", (("autocast", {}),), learning=True)
    return [Intervention("TF32 products", (("matmul", {}),), learning=True), cast]


def compile_off(c: Context, f: Finding) -> list[Intervention]:
    return [switch("without torch.compile", "compile-off")]


def pinned(c: Context, f: Finding) -> list[Intervention]:
    return [switch("the learner on the first core", "affinity", cores=[0])]


REMEDIES: dict[str, Remedy] = {
    "env-realtime-throttle": sleep,
    "env-render": render,
    "env-pandas-index": _recorded,
    "env-deepcopy": _recorded,
    "env-slow-reset": _recorded,
    "env-wrapper-tax": wrappers,
    "env-python-loop": python_loop,
    "ipc-payload": payload,
    "torch-oversubscribe": threads,
    "cgroup-miscount": threads,
    "cv2-threads": cv2,
    "vec-straggler": one_process,
    "subproc-cheap-env": one_process,
    "env-oversubscribe": one_process,
    "serial-heavy-env": worker_processes,
    "actor-learner-cores": pinned,
    "gpu-tiny-policy": on_cpu,
    "grad-in-rollout": no_grad,
    "dist-validate": validate_off,
    "push-item-sync": push_item,
    "deque-sampling": _recorded,
    "per-python-tree": _recorded,
    "list-to-tensor": list_to_tensor,
    "gae-loop": gae_loop,
    "anomaly-on": anomaly_off,
    "recompile-churn": compile_off,
    "compile-unamortized": compile_off,
    "graph-retention": detached,
    "rnn-seq-loop": skipped_loop,
    "per-param-loops": param_loops,
    "float64-data": float32,
    "tiny-minibatch": minibatch,
    "utd-high": fewer_updates,
    "oversized-net": narrower,
    "launch-bound": compiled,
    "no-amp-big-net": mixed,
    "cache-flush": flush_off,
    "logger-per-step": quiet,
    "eval-dominates": evaluate,
    "ckpt-replay": checkpoint,
    "too-few-envs": more_envs,
}


def remedies(context: Context, finding: Finding) -> list[Intervention]:
    """Interventions that test a finding, the best first; none where hotlap knows no experiment for it."""
    found = REMEDIES[finding.cause](context, finding) if finding.cause in REMEDIES else []
    return [one for one in found if one.config] if context.evidence.is_system else found
