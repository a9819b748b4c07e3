//! One function, compiled for the instructions of several processors.

/// Compiles a function for the instructions that processors have, and chooses at run time.
macro_rules! for_this_processor {
    ($(#[$about:meta])* fn $name:ident$(<$number:ident>)?($($argument:ident: $kind:ty),* $(,)?) $body:block) => {
        $(#[$about])*
        fn $name$(<$number: Number>)?($($argument: $kind),*) {
            #[inline(always)]
            fn plain$(<$number: Number>)?($($argument: $kind),*) $body

            #[cfg(target_arch = "x86_64")]
            {
                use $crate::kernels::processor::{Instructions, instructions};

                #[target_feature(enable = "avx512f")]
                fn with_avx512$(<$number: Number>)?($($argument: $kind),*) {
                    plain($($argument),*);
                }
                #[target_feature(enable = "avx2,fma")]
                fn with_avx2$(<$number: Number>)?($($argument: $kind),*) {
                    plain($($argument),*);
                }
                match instructions() {
                    // SAFETY: this processor has the instructions.
                    Instructions::Avx512 => return unsafe { with_avx512($($argument),*) },
                    // SAFETY: as above.
                    Instructions::Avx2 => return unsafe { with_avx2($($argument),*) },
                    Instructions::Plain => {}
                }
            }
            plain($($argument),*);
        }
    };
}
pub(super) use for_this_processor;
