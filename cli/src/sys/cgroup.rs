//! The memory limit of this process's control group: of a container, a Slurm job or a systemd service, by Linux.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// The smallest limit of the group and of all groups around it. None without one.
pub fn memory_limit() -> Option<u64> {
    limit_below(Path::new("/"))
}

fn limit_below(root: &Path) -> Option<u64> {
    let groups = read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = read_to_string(root.join("proc/self/mountinfo")).ok()?;
    let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
    groups.lines().filter_map(|line| limit_of(line, &mounts, root)).min()
}

/// `line`: the group in one hierarchy, as `4:memory:/slurm/job_7` (version 1) or `0::/system.slice/x.service` (version 2).
fn limit_of(line: &str, mounts: &[Mount], root: &Path) -> Option<u64> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, group) = rest.split_once(':')?;
    let (unified, file) = match controllers {
        "" => (true, "memory.max"),
        _ if controllers.split(',').any(|it| it == "memory") => (false, "memory.limit_in_bytes"),
        _ => return None,
    };
    let mount = mounts.iter().find(|it| it.unified == unified)?;
    // A container may see its group as the mount's root, by the name that the group has outside.
    let inside = Path::new(group).strip_prefix(mount.group).unwrap_or(Path::new(""));
    let place: PathBuf = [root, Path::new(mount.place.trim_start_matches('/'))].iter().collect();
    let limits = inside.ancestors().filter_map(|group| {
        // `max` means no limit.
        read_to_string(place.join(group).join(file)).ok()?.trim().parse::<u64>().ok()
    });
    limits.min()
}

/// A mounted hierarchy that may limit memory.
struct Mount<'a> {
    /// Version 2, which has one hierarchy for all controllers.
    unified: bool,
    /// The group at its root.
    group: &'a str,
    place: &'a str,
}

impl<'a> Mount<'a> {
    /// A line of `mountinfo`.
    fn parse(line: &'a str) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (group, place) = (mount.next()?, mount.next()?);
        let system: Vec<&str> = system.split(' ').collect();
        let unified = match system[..] {
            ["cgroup2", ..] => true,
            ["cgroup", _, options] if options.split(',').any(|it| it == "memory") => false,
            _ => return None,
        };
        Some(Self { unified, group, place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIFIED: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
    const MEMORY: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                          32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";

    fn limit(groups: &str, mounts: &str, files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        let own = [("proc/self/cgroup", groups), ("proc/self/mountinfo", mounts)];
        for (path, text) in own.iter().chain(files) {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        limit_below(root.path())
    }

    #[test]
    fn a_service_has_the_limit_of_its_group() {
        let files = [
            ("sys/fs/cgroup/system.slice/memory.max", "max\n"),
            ("sys/fs/cgroup/system.slice/train.service/memory.max", "4294967296\n"),
        ];
        assert_eq!(limit("0::/system.slice/train.service\n", UNIFIED, &files), Some(4 << 30));
    }

    #[test]
    fn a_job_has_the_smallest_limit_of_the_groups_around_it() {
        let files = [
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "2147483648\n"),
            ("sys/fs/cgroup/memory/slurm/job_7/step_0/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        let groups = "4:cpu:/slurm\n3:memory:/slurm/job_7/step_0\n0::/\n";
        assert_eq!(limit(groups, MEMORY, &files), Some(2 << 30));
    }

    #[test]
    fn a_container_has_the_limit_of_the_group_that_it_sees_as_root() {
        let files = [("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n")];
        let mounts = MEMORY.replace("0:32 / ", "0:32 /docker/ab ");
        assert_eq!(limit("3:memory:/docker/ab\n", &mounts, &files), Some(1 << 30));
        let files = [("sys/fs/cgroup/memory.max", "1073741824\n")];
        assert_eq!(limit("0::/\n", UNIFIED, &files), Some(1 << 30));
        assert_eq!(limit("0::/../other\n", UNIFIED, &files), Some(1 << 30));
    }

    #[test]
    fn nothing_limits_where_no_group_says_so() {
        assert_eq!(limit("0::/\n", UNIFIED, &[]), None);
        assert_eq!(limit("0::/a\n", UNIFIED, &[("sys/fs/cgroup/a/memory.max", "max\n")]), None);
        assert_eq!(limit("garbage\n", "garbage\n", &[]), None);
    }
}
