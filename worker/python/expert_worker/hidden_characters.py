"""Characters that turn, join or hide text without being seen, as ranges of code points.

Generated from the Rust constants by `UPDATE=1 cargo test -p expert-contract --test generated`.
"""

HIDDEN = (
    (0x61C, 0x61C),
    (0x180E, 0x180E),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0xFEFF, 0xFEFF),
    (0xFFF9, 0xFFFB),
    (0xE0000, 0xE007F),
)
# They shape emoji and the letters of several scripts, and are kept.
JOINERS = (0x200C, 0x200D)
