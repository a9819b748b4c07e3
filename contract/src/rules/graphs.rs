//! CUDA graphs are captured from compiled layers.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::Effective;

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let config = &effective.config;
    if *config.use_cuda_graphs
        && *config.torch_compile == Some(false)
        && config.torch_compile.origin <= config.use_cuda_graphs.origin
    {
        let message =
            "`use_cuda_graphs` has no effect: graphs are captured by `torch_compile`, which is false";
        let problem = Problem::new(Code::GraphsWithoutCompile, config.use_cuda_graphs.span, message);
        problems.push(problem.hint("set `torch_compile` to true, or this to false"));
    }
}
