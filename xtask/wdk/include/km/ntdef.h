/*
 * ntdef.h: Debian's, with FIELD_OFFSET as a constant expression.
 *
 * The public DDK's C_ASSERTs need that. Its definition by a cast of a null
 * pointer is none for clang.
 */
#pragma once
#include_next <ntdef.h>

#undef FIELD_OFFSET
#define FIELD_OFFSET(type, field) __builtin_offsetof(type, field)
