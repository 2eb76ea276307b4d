"""The catalogue: every cause of slow training that hotlap knows, by its id.

`explains` names causes whose signs this one brings along: where both are found, the other is merged into it. Sources are
threads in which users met the cause; S0 to S4 are the five guides.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    title: str  # the reason, in a clause: "because ..."
    fix: str
    confirm: str  # the experiment that would confirm it
    sources: tuple[str, ...] = ()
    learning: bool = False  # whether the fix can change what is learned
    explains: tuple[str, ...] = ()


CAUSES: dict[str, Cause] = {
    # -- environments --
    "env-realtime-throttle": Cause(
        "the environment sleeps to keep pace with a clock",
        "run the simulator without its clock: drop the sleep, or run headless and faster than real time",
        "skip the sleep",
        ("softbankrobotics-research/qibullet#52",),
        explains=("serial-heavy-env", "too-few-envs", "vec-straggler", "subproc-cheap-env", "env-oversubscribe"),
    ),
    "env-render": Cause(
        "frames are drawn on every step",
        "render only when somebody looks: create the environment without a render mode, or draw on demand",
        "leave rendering out",
        ("stepjam/RLBench#36",),
        explains=("env-python-loop", "serial-heavy-env", "env-wrapper-tax", "cv2-threads"),
    ),
    "env-pandas-index": Cause(
        "every step looks up rows of a pandas table",
        "copy the table into a float32 array once, and index that",
        "return a recorded row",
        ("triqbit/mt5-ai-xauusd-trader#613",),
        explains=("env-python-loop", "serial-heavy-env"),
    ),
    "env-deepcopy": Cause(
        "state is copied with deepcopy",
        "copy the arrays that change, by name",
        "return a recorded copy",
        ("fedden/poker_ai#102",),
        explains=("env-python-loop", "serial-heavy-env"),
    ),
    "env-slow-reset": Cause(
        "beginning an episode costs far more than playing it",
        "build what does not change once, keep it, and restore a saved state in reset",
        "reset from a cached state",
        ("google-deepmind/lab#152", "bulletphysics/bullet3#1305"),
        explains=("env-python-loop", "serial-heavy-env"),
    ),
    "env-wrapper-tax": Cause(
        "wrappers around the environment cost more than the environment",
        "drop wrappers that nothing needs, and fuse the others into one",
        "peel the wrappers off",
        ("pytorch/rl#1247",),
        explains=("env-python-loop", "serial-heavy-env"),
    ),
    "env-python-loop": Cause(
        "the environment's rules run in interpreted Python loops",
        "write the loop with numpy over all environments, or in C or Numba",
        "return recorded results of the function",
        ("AgileRL/AgileRL#340", "S3"),
    ),
    "jax-unjitted-step": Cause(
        "environment steps of JAX are dispatched operation by operation",
        "compile the rollout: jax.jit around a lax.scan",
        "compile the step",
        ("dunnolab/xland-minigrid#17",),
    ),
    # -- vectorisation --
    "ipc-payload": Cause(
        "what travels between processes is large",
        "send less: small observations, empty infos, shared memory",
        "leave the infos out",
        ("google-deepmind/open_spiel#1550", "S4"),
        explains=("subproc-cheap-env", "env-oversubscribe", "vec-straggler"),
    ),
    "torch-oversubscribe": Cause(
        "more threads compute than there are cores",
        "give each process its share of the cores: OMP_NUM_THREADS and torch.set_num_threads",
        "one thread per process",
        ("DLR-RM/stable-baselines3#121", "pytorch/torchtitan#4038"),
        explains=("env-oversubscribe", "subproc-cheap-env", "cgroup-miscount", "vec-straggler"),
    ),
    "cv2-threads": Cause(
        "OpenCV runs a pool of threads in every process",
        "cv2.setNumThreads(0)",
        "OpenCV without threads",
        ("openai/universe-starter-agent#33",),
        explains=("env-oversubscribe", "subproc-cheap-env"),
    ),
    "vec-straggler": Cause(
        "each vector step waits for the slowest environment",
        "give each worker several environments, or do not wait for all: asynchronous batches",
        "environments in one process, and asynchronous batches",
        ("hill-a/stable-baselines#390", "hill-a/stable-baselines#866"),
        explains=("subproc-cheap-env", "env-oversubscribe"),
    ),
    "subproc-cheap-env": Cause(
        "talking to worker processes costs more than the steps they make",
        "run the environments in one process, or many of them per worker",
        "all environments in one process",
        ("openai/baselines#608", "thu-ml/tianshou#387"),
        explains=("env-oversubscribe",),
    ),
    "env-oversubscribe": Cause(
        "there are more worker processes than cores to run them",
        "as many workers as cores, several environments in each",
        "fewer workers",
        ("bupticybee/AlphaNLHoldem#10",),
    ),
    "serial-heavy-env": Cause(
        "heavy environments step one after another while cores are idle",
        "worker processes: SubprocVecEnv, AsyncVectorEnv",
        "the environments in worker processes",
        ("DLR-RM/stable-baselines3#1778",),
        explains=("env-python-loop", "too-few-envs"),
    ),
    "actor-learner-cores": Cause(
        "the learner takes the cores that environments step on",
        "pin the learner and the workers to cores of their own",
        "pin the learner",
        ("Motphys/MotrixLab#62",),
    ),
    "broadcast-payload": Cause(
        "weights or results are shipped to every worker",
        "ship less, and less often",
        "leave the broadcast out",
        ("ray-project/ray#41894", "ray-project/ray#50477"),
    ),
    # -- acting --
    "gpu-tiny-policy": Cause(
        "the network is too small for the GPU: copies and launches take longer than its arithmetic",
        "train on the CPU",
        "the whole loop on the CPU",
        ("araffin/sbx#35", "DLR-RM/stable-baselines3#2012"),
        explains=("launch-bound", "hidden-sync"),
    ),
    "batch1-inference": Cause(
        "the network runs once per environment",
        "collect the observations of all environments, and run it once",
        "act on all environments together",
        ("entity-neural-network/incubator#15", "AgileRL/AgileRL#620"),
        explains=("too-few-envs", "grad-in-rollout", "list-to-tensor"),
    ),
    "grad-in-rollout": Cause(
        "acting builds graphs for gradients that nobody takes",
        "act under torch.inference_mode() or torch.no_grad()",
        "act without gradients",
        ("kengz/SLM-Lab#314", "ray-project/ray#6962"),
    ),
    "dist-validate": Cause(
        "distributions check their arguments each time they are made",
        "torch.distributions.Distribution.set_default_validate_args(False)",
        "checks off",
        ("ray-project/ray#50440", "pytorch/pytorch#48743"),
    ),
    # -- buffers --
    "push-item-sync": Cause(
        "transitions are stored one by one, each number read out of a tensor by itself",
        "copy the whole batch once per vector step, into arrays",
        "one batched copy",
        ("TorchTrade/torchtrade#27", "S3"),
        explains=("hidden-sync",),
    ),
    "deque-sampling": Cause(
        "sampling walks through a deque, or draws without replacement from a huge range",
        "a ring of arrays, and random indices drawn in one call",
        "draw from a small buffer",
        ("chainer/chainerrl#131", "sdpkjc/abcdrl#31"),
        explains=("list-to-tensor", "sampler-capacity"),
    ),
    "per-python-tree": Cause(
        "priorities live in a tree that Python walks node by node",
        "a tree in an array, updated and searched for the whole batch at once",
        "uniform draws",
        ("Kaixhin/Rainbow#74",),
        explains=("sampler-capacity", "list-to-tensor", "deque-sampling"),
    ),
    "sampler-capacity": Cause(
        "drawing a batch takes longer the fuller the buffer is",
        "a sampler that does not scan its storage, or a newer version of it",
        "a small buffer",
        ("pytorch/rl#2669",),
    ),
    "list-to-tensor": Cause(
        "tensors are made from lists of arrays, element by element",
        "np.stack or np.asarray first, then torch.from_numpy",
        "stack the arrays first",
        ("facebook/Ax#4798", "pfnet/pfrl#189"),
    ),
    "replay-swap": Cause(
        "the replay buffer does not fit into memory",
        "uint8 observations, each frame once, a smaller buffer",
        "a quarter of the buffer",
        ("rail-berkeley/softlearning#65",),
        learning=True,
    ),
    "replay-h2d": Cause(
        "every batch is copied to the GPU when it is needed",
        "keep the buffer on the device, or copy the next batch while this one is used",
        "the buffer on the device",
        ("laboroai/border#44", "cpnota/autonomous-learning-library#186"),
    ),
    # -- advantages --
    "gae-loop": Cause(
        "advantages are computed by a loop of tiny tensor operations",
        "the same loop over numpy arrays, or compiled",
        "advantages from a compiled loop",
        ("verl-project/verl#2132", "pytorch/rl#1052"),
    ),
    # -- updates --
    "anomaly-on": Cause(
        "autograd runs in its debug mode",
        "torch.autograd.set_detect_anomaly(False)",
        "debug mode off",
        ("Lightning-AI/pytorch-lightning#17359", "Xingyu-Lin/mbpo_pytorch#8"),
        explains=("grad-in-rollout", "tiny-minibatch", "utd-high", "launch-bound"),
    ),
    "recompile-churn": Cause(
        "torch.compile compiles again and again, because shapes change",
        "pad to a few shapes, or mark the changing dimension dynamic",
        "without torch.compile",
        ("meta-pytorch/torchtune#1395", "pytorch/pytorch#114293"),
        explains=("compile-unamortized", "tiny-minibatch", "oversized-net", "utd-high"),
    ),
    "compile-unamortized": Cause(
        "compiling takes longer than it saves in so short a run",
        "compile for long runs only, or keep the cache between runs",
        "without torch.compile",
        ("google/brax#95",),
    ),
    "graph-retention": Cause(
        "tensors are kept with their graphs, so memory and time grow",
        "store loss.item() or tensor.detach()",
        "detach what is stored",
        ("Kaixhin/Rainbow#33",),
        explains=("tiny-minibatch", "utd-high", "grad-in-rollout"),
    ),
    "rnn-seq-loop": Cause(
        "a recurrent network is called step by step over sequences that are known",
        "one call with the whole padded sequence",
        "whole sequences",
        ("Stable-Baselines-Team/stable-baselines3-contrib#113",),
        explains=("tiny-minibatch", "utd-high", "oversized-net", "launch-bound"),
    ),
    "per-param-loops": Cause(
        "a Python loop touches every parameter by itself",
        "torch._foreach_* operations or an optimizer with foreach or fused",
        "fused operations",
        ("DLR-RM/stable-baselines3#106", "deepmodeling/deepmd-kit#4463"),
        explains=("tiny-minibatch", "utd-high", "launch-bound"),
    ),
    "float64-data": Cause(
        "numbers are computed in double precision",
        "float32 from the environment on",
        "float32",
        ("kengz/SLM-Lab#326", "Unity-Technologies/ml-agents#2948"),
        explains=("oversized-net",),
    ),
    "tiny-minibatch": Cause(
        "minibatches are so small that calling the operations takes longer than computing them",
        "larger minibatches (adjust the learning rate)",
        "larger minibatches",
        ("S0",),
        learning=True,
        explains=("oversized-net", "launch-bound", "per-param-loops"),
    ),
    "utd-high": Cause(
        "there are very many gradient steps for each step of experience",
        "fewer updates per step, with larger batches",
        "fewer updates",
        ("MyoHub/myosuite#296", "S3"),
        learning=True,
        explains=("tiny-minibatch", "oversized-net"),
    ),
    "oversized-net": Cause(
        "the network is far wider than its task needs",
        "a narrower network",
        "half the width",
        ("S0",),
        learning=True,
    ),
    "launch-bound": Cause(
        "the GPU waits for Python to launch its kernels",
        "CUDA graphs, or torch.compile with mode reduce-overhead",
        "torch.compile",
        ("pytorch-labs/LeanRL", "meta-pytorch/LeanRL#2", "pytorch/rl#4216"),
    ),
    "clip-sync": Cause(
        "clipping gradients makes the host wait for the GPU",
        "a newer torch, clip_grad_norm_(..., error_if_nonfinite=False)",
        "clipping off",
        ("pytorch/pytorch#60691",),
    ),
    "no-amp-big-net": Cause(
        "the GPU is busy with float32 matrix products",
        "mixed precision: torch.autocast, or TF32",
        "autocast",
        ("Toni-SM/skrl#155",),
        learning=True,
    ),
    # -- transfers --
    "hidden-sync": Cause(
        "reading numbers from the GPU makes the host wait in the middle of an update",
        "keep statistics on the device, and read them once per iteration",
        "read them once",
        ("pytorch-labs/LeanRL", "AgileRL/AgileRL#620"),
    ),
    "gpu-sim-numpy": Cause(
        "observations of a simulator on the GPU travel to the host and back",
        "a trainer that takes tensors as they are",
        "tensors throughout",
        ("isaac-sim/IsaacLab#3087", "isaac-sim/IsaacLab#523"),
    ),
    "cache-flush": Cause(
        "memory is collected or given back on every step",
        "leave torch.cuda.empty_cache() and gc.collect() out of the loop",
        "leave them out",
        ("huggingface/peft#2894",),
    ),
    # -- threads and the system --
    "cgroup-miscount": Cause(
        "thread pools are sized for the host, and the container may use less",
        "as many threads as the container's quota has cores",
        "threads by the quota",
        ("dmlc/xgboost#7653", "Unity-Technologies/ml-agents#4471"),
    ),
    "gil-locks": Cause(
        "threads of Python wait for each other",
        "processes instead of threads, and bounded queues",
        "one thread",
        ("ray-project/ray#50379", "ray-project/ray#59544"),
    ),
    # -- logging, evaluation, checkpoints --
    "logger-per-step": Cause(
        "something is logged on every step",
        "log once per iteration, and flush rarely",
        "logging off",
        ("wandb/wandb#950",),
        explains=("gil-locks",),
    ),
    "eval-dominates": Cause(
        "evaluation runs too often",
        "evaluate rarely, on few episodes, in parallel",
        "evaluation ten times rarer",
        ("keraJLi/rejax#13", "swirl-uk/robobase#12"),
    ),
    "ckpt-replay": Cause(
        "checkpoints are large or frequent",
        "save rarely, and the replay buffer not at all or by mmap",
        "checkpoints off",
        ("thu-ml/tianshou#260",),
    ),
    # -- over a long run --
    "env-state-leak": Cause(
        "the environment gathers objects from episode to episode, and gets slower",
        "clear in reset what step appends",
        "a fresh environment now and then",
        ("BIT-MCS/Cadre#8", "facebookresearch/habitat-lab#1809"),
        explains=("env-python-loop", "serial-heavy-env", "harder-states"),
    ),
    "store-spill": Cause(
        "Ray's object store is full and spills to disk",
        "smaller batches, or a bigger store",
        "a bigger store",
        ("ray-project/ray#7154",),
    ),
    "harder-states": Cause(
        "no bug: the policy reaches states that take longer to step",
        "nothing to mend; count time per step and by state",
        "replay the same actions",
        ("leggedrobotics/raisimGym#30", "thu-ml/tianshou#140"),
    ),
    "learning-starts": Cause(
        "no bug: before this point nothing was learned, so steps were cheaper",
        "nothing to mend; measure after learning has begun",
        "rates by window",
        ("DLR-RM/stable-baselines3#904",),
    ),
    # -- ratios --
    "too-few-envs": Cause(
        "each call of the network and of the loop serves very few environments",
        "more environments per call",
        "more environments",
        ("alex-petrenko/sample-factory#29",),
        learning=True,
    ),
}
