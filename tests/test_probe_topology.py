"""How far apart CPUs are: trees of machines that we do not have, and the one that runs this."""

import os

import pytest

from harness.probing import topology


def tree(root, cpus, nodes=None):
    """A sysfs of CPUs {number: {core, l2, l3 (lists as the kernel writes them), package}}, and of nodes."""
    for cpu, place in cpus.items():
        folder = root / f"cpu/cpu{cpu}"
        (folder / "topology").mkdir(parents=True)
        if "core" in place:
            (folder / "topology/thread_siblings_list").write_text(place["core"] + "\n")
        if "package" in place:
            (folder / "topology/physical_package_id").write_text(f"{place['package']}\n")
        caches = [("1", "Instruction", "0-999"), ("1", "Data", place.get("core", str(cpu)))]
        caches += [(level[1], "Unified", place[level]) for level in ("l2", "l3") if level in place]
        for index, texts in enumerate(caches if "l2" in place or "l3" in place else []):
            (folder / f"cache/index{index}").mkdir(parents=True)
            for name, text in zip(("level", "type", "shared_cpu_list"), texts, strict=True):
                (folder / f"cache/index{index}" / name).write_text(text + "\n")
    for node, members in (nodes or {}).items():
        (root / f"node/node{node}").mkdir(parents=True)
        (root / f"node/node{node}/cpulist").write_text(members + "\n")
    return root


def two_sockets(root):
    """Two sockets of two L3 groups of two cores of two threads, the second threads numbered after all cores."""
    cpus = {}
    for cpu in range(16):
        core = cpu % 8
        group = core // 2 * 2
        cpus[cpu] = {
            "core": f"{core},{core + 8}",
            "l2": f"{core},{core + 8}",
            "l3": f"{group}-{group + 1},{group + 8}-{group + 9}",
            "package": core // 4,
        }
    return tree(root, cpus, {0: "0-3,8-11", 1: "4-7,12-15"})


def test_two_sockets_with_smt_and_nodes(tmp_path):
    found = topology.read(two_sockets(tmp_path), range(16))
    first = {name: pairs[0] for name, pairs in found.pairs.items()}
    assert first == {"same_cpu": (0, 0), "smt": (0, 8), "l3": (0, 1), "socket": (0, 2), "numa": (0, 4)}
    assert found.pairs["smt"] == tuple((core, core + 8) for core in range(8))
    assert found.absent == {"l2": "no two cores share an L2 cache"}
    assert list(found.to_json()) == list(topology.POSITIONS)
    assert found.to_json()["numa"] == {"cpus": [0, 4]}


def test_pairs_of_a_position_share_no_cpu(tmp_path):
    found = topology.read(two_sockets(tmp_path), range(16))
    for name, pairs in found.pairs.items():
        used = [cpu for pair in pairs for cpu in set(pair)]
        assert len(used) == len(set(used)), name


def test_clusters_that_share_a_second_level_cache(tmp_path):
    cpus = {
        cpu: {"core": str(cpu), "l2": f"{cpu // 4 * 4}-{cpu // 4 * 4 + 3}", "l3": "0-7", "package": 0}
        for cpu in range(8)
    }
    found = topology.read(tree(tmp_path, cpus, {0: "0-7"}), range(8))
    assert found.pairs["l2"] == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert found.pairs["l3"] == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert found.absent["smt"] == "each core has one hardware thread"
    assert found.absent["socket"] == "all CPUs of a socket share a cache"
    assert found.absent["numa"] == "all CPUs are on one NUMA node"


def test_a_machine_that_describes_nothing(tmp_path):
    found = topology.read(tmp_path, (0, 1))
    assert found.pairs == {"same_cpu": ((0, 0), (1, 1)), "socket": ((0, 1),)}
    assert found.absent["l3"] == "the system does not describe an L3 cache"
    assert set(found.absent) | set(found.pairs) == set(topology.POSITIONS)


def test_sockets_without_nodes_are_as_far_as_nodes(tmp_path):
    cpus = {cpu: {"core": str(cpu), "l2": str(cpu), "l3": str(cpu), "package": cpu} for cpu in range(2)}
    found = topology.read(tree(tmp_path, cpus), range(2))
    assert found.pairs["numa"] == ((0, 1),)


def test_only_allowed_cpus_count(tmp_path):
    found = topology.read(two_sockets(tmp_path), (3,))
    assert found.pairs == {"same_cpu": ((3, 3),)}
    assert set(found.absent.values()) == {"only one CPU may be used"}
    found = topology.read(tmp_path, (0, 1))
    assert found.absent["smt"] == "a core's other hardware thread is not allowed"


def test_this_machine():
    found = topology.read()
    assert set(found.cpus) == os.sched_getaffinity(0)
    assert set(found.absent) | set(found.pairs) == set(topology.POSITIONS)
    assert not set(found.absent) & set(found.pairs)
    for pair in (pair for pairs in found.pairs.values() for pair in pairs):
        assert set(pair) <= set(found.cpus)


@pytest.mark.parametrize(("text", "cpus"), [("", []), ("0", [0]), ("0-2,7", [0, 1, 2, 7])])
def test_lists_of_cpus(text, cpus):
    assert topology._list(text) == frozenset(cpus)
