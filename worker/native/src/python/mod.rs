//! The Python layer: argument conversion, the GIL released around work, errors as exceptions with data.

// Arguments arrive from Python by value, many of them as keywords.
#![allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]

mod build;
mod duplicates;
mod errors;
mod kernels;
mod oracle;
mod reader;
mod recipe;
mod reporter;
mod rows;
mod sources;
mod tokenizer;

use pyo3::prelude::*;

/// Which sources this module was built from; `expert-cli` finds it in the file without loading it.
const SOURCES: &str = concat!("expert-native-sources:", env!("EXPERT_NATIVE_SOURCES"));

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("SOURCES", SOURCES)?;
    module.add("ENCODER_VERSION", crate::encoder::ENCODER_VERSION)?;
    module.add("SUPERVISED", crate::encoder::SUPERVISED)?;
    module.add("JSON_COLUMN", crate::rows::JSON_COLUMN)?;
    module.add("BROKEN_COLUMN", crate::rows::BROKEN_COLUMN)?;
    module.add("BUILTIN_TEMPLATES", crate::template::BUILTIN.to_vec())?;
    module.add("NativeError", module.py().get_type::<errors::NativeError>())?;
    module.add_class::<tokenizer::PyTokenizer>()?;
    module.add_class::<recipe::PyRecipe>()?;
    module.add_function(wrap_pyfunction!(recipe::template_reads, module)?)?;
    module.add_function(wrap_pyfunction!(recipe::template_decides, module)?)?;
    module.add_class::<reader::RowReader>()?;
    module.add_class::<build::Build>()?;
    module.add_class::<duplicates::Duplicates>()?;
    module.add_class::<rows::MappedRows>()?;
    module.add_function(wrap_pyfunction!(sources::layout, module)?)?;
    module.add_function(wrap_pyfunction!(sources::first_rows, module)?)?;
    module.add_function(wrap_pyfunction!(sources::rows_of_columns, module)?)?;
    module.add_function(wrap_pyfunction!(build::ingest, module)?)?;
    module.add_function(wrap_pyfunction!(duplicates::compare, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::swiglu, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::swiglu_backward, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::rms_norm, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::rms_norm_backward, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::rotate, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::row_losses, module)?)?;
    module.add("BF16_RUNS_HERE", crate::kernels::number::bf16_runs_here())?;
    module.add_function(wrap_pyfunction!(kernels::attend, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::attend_backward, module)?)?;
    module.add("ATTENTION_RUNS_HERE", crate::kernels::attention::fp32::runs_here())?;
    module.add("BF16_ATTENTION_RUNS_HERE", crate::kernels::attention::bf16::runs_here())?;
    module.add_function(wrap_pyfunction!(build::best_fit, module)?)?;
    module.add_function(wrap_pyfunction!(build::time_best_fit, module)?)?;
    Ok(())
}
