"""Two files of versions, one for Ray: they may differ only in what Ray's launcher forces upon it."""

import re


def pins(path):
    """Versions by name, as pip compares names."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    found = dict(line.split("==") for line in lines)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found.items()}


def test_rays_versions_are_the_others_but_for_three(repository):
    ours, rays = pins(repository / "constraints.txt"), pins(repository / "constraints-ray.txt")
    differ = {name for name in ours.keys() & rays.keys() if ours[name] != rays[name]}
    assert differ == {"cloudpickle", "joblib", "python-dateutil"}
    assert {"ray", "hydra-ray-launcher", "torch", "hydra-core", "pytest"} <= rays.keys()
