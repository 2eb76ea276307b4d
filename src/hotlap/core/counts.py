"""What is counted in a window or an iteration. A name with a stage behind an "@" was counted in that stage."""

# The work that was done, each counted apart.
ENV_STEPS, UPDATES, EPISODES = "env_steps", "updates", "episodes"
ITERATIONS, WINDOWS = "iterations", "windows"  # a script has windows, whose length means nothing
EPISODE_STEPS = "episode_steps"  # steps of the episodes that ended
CHOICES = "choices"  # of actions: for one call of `step`, or for several environments that step one after another
PARALLEL = "parallel_envs"  # environments that took turns

# By the stage it happened in: "forwards@collect/act".
FORWARDS, ROWS, SYNC_CALLS = "forwards", "rows", "syncs"
GRADIENT_FORWARDS = "gradient_forwards"  # those whose graph was built
COPIES_TO_DEVICE, COPIES_TO_HOST = "copies_to_device", "copies_to_host"
BYTES_TO_DEVICE, BYTES_TO_HOST = "bytes_to_device", "bytes_to_host"
SLEPT = "slept_seconds"  # in `time.sleep`, by the stage that was open

# Of the whole window.
STEP_MEDIAN, STEP_P99 = "step_median", "step_p99"  # seconds that one call of `step` takes
IPC_MESSAGES, IPC_BYTES = "ipc_messages", "ipc_bytes"  # sent to other processes
IPC_RECEIVED = "ipc_received_bytes"
GATHERED_STEPS = "gathered_steps"  # of the env steps, those that other processes made, and counted too
DELAYS = "delays"  # injected by `hotlap sweep --delay`
THREADS, CV2_THREADS = "threads", "cv2_threads"  # of a worker process

# What the process used of the machine.
CPU, SWITCHES, FORCED_SWITCHES = "cpu_seconds", "switches", "switches_forced"
FAULTS, DISK_FAULTS = "page_faults", "page_faults_disk"
THROTTLED, GC_RUNS, GC_SECONDS, COMPILED_GRAPHS = "throttled_seconds", "gc_runs", "gc_seconds", "compiled_graphs"
SCRIPT_CPU = "script_cpu_seconds"  # of the script's own process, seen from one that learns
SPILLED_BYTES = "spilled_bytes"  # that Ray's object store wrote to disk, on the machine of the driver
