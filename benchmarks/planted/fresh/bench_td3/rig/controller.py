"""Stand-in for the controller box of a test bench. Talks 6 numbers per line over stdin/stdout.
The real box answers when the rotor speed has settled."""
import math
import sys
import time

SETTLE_S = 0.004


def serve():
    w, temp, load = 0.0, 20.0, 0.0
    k = 0
    for line in sys.stdin:
        parts = line.split()
        if parts[0] == "zero":
            w, temp, load, k = 0.0, 20.0, 0.3, 0
        else:
            u, b = float(parts[1]), float(parts[2])
            load = 0.3 + 0.2 * math.sin(0.05 * k)
            w += 0.2 * (1.5 * u - 0.4 * w - load - max(b, 0.0) * w)
            temp += 0.1 * (2.0 * u * u - 0.05 * (temp - 20.0))
            k += 1
            time.sleep(SETTLE_S)
        target = 1.0 + 0.5 * math.sin(0.02 * k)
        sys.stdout.write(f"{w:.6f} {temp:.4f} {load:.4f} {target:.6f} {k}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
