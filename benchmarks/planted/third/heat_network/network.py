"""District heating network: many houses and pipes, a few controllable boilers. All plants of a batch at once.

The pipe network is integrated with implicit Euler (unconditionally stable), the radiation loss is explicit;
several substeps per control step because of the latter."""
import torch

SUBSTEPS, DT = 6, 0.05


def build(nodes=512, boilers=8, sensors=32, seed=0):
    g = torch.Generator().manual_seed(seed)
    xy = torch.rand(nodes, 2, generator=g, dtype=torch.double)
    d = torch.cdist(xy, xy)
    w = torch.where(d < 0.09, 1.0 / (0.02 + d), 0.0).fill_diagonal_(0)
    lap = torch.diag(w.sum(1)) - w
    implicit = torch.linalg.inv(torch.eye(nodes) + DT * 0.2 * lap)
    inject = torch.zeros(boilers, nodes, dtype=torch.double)
    inject[torch.arange(boilers), torch.randperm(nodes, generator=g)[:boilers]] = 40.0
    return dict(
        step=implicit.T.contiguous().float(),
        inject=(inject @ implicit.T * DT).float(),
        sensors=torch.randperm(nodes, generator=g)[:sensors],
        nodes=nodes, boilers=boilers,
    )


def initial(net, n, rng):
    return dict(
        temp=torch.rand(n, net["nodes"], generator=rng) * 0.2 + 0.4,
        scratch=torch.empty(n, net["nodes"]),
        outside=torch.rand(n, 1, generator=rng) * 0.6 - 0.3,
        want=torch.rand(n, 1, generator=rng) * 0.2 + 0.45,
        t=torch.randint(0, 100, (n,), generator=rng),
    )


def observe(net, s):
    return torch.cat([s["temp"][:, net["sensors"]] - s["want"], s["outside"], s["want"]], 1)


@torch.inference_mode()
def step(net, s, action, rng, episode=100):
    power = action.clamp(-1, 1) * 0.5 + 0.5
    heat = power @ net["inject"]
    temp, other = s["temp"], s["scratch"]
    for _ in range(SUBSTEPS):
        torch.addcmul(temp, temp, temp, value=-0.02, out=other)
        torch.addmm(heat, other, net["step"], out=temp)
    s["outside"] += 0.02 * torch.randn(s["outside"].shape, generator=rng)
    err = (temp[:, net["sensors"]] - s["want"]).abs().mean(1)
    reward = -err - 0.02 * power.mean(1)
    s["t"] += 1
    done = s["t"] >= episode
    k = int(done.sum())
    if k:
        fresh = initial(net, k, rng)
        for name in ("temp", "outside", "want"):
            s[name][done] = fresh[name]
        s["t"][done] = 0
    return observe(net, s), reward, done
