/*
 * intrin.h: prototypes of the intrinsic functions that the DDK's inline
 * functions call.
 *
 * Source: https://learn.microsoft.com/cpp/intrinsics/x64-amd64-intrinsics-list
 *
 * clang's own intrin.h declares all of them, and with them every vector type,
 * which would all come into the bindings.
 */
#pragma once

unsigned __int64 __readcr8(void);
void __writecr8(unsigned __int64 data);

unsigned short __readgsword(unsigned long offset);
unsigned __int64 __readgsqword(unsigned long offset);

unsigned __int64 __umulh(unsigned __int64 a, unsigned __int64 b);

void __movsb(unsigned char *to, unsigned char const *from, unsigned __int64 count);
void __movsw(unsigned short *to, unsigned short const *from, unsigned __int64 count);
void __movsd(unsigned long *to, unsigned long const *from, unsigned __int64 count);
void __stosb(unsigned char *to, unsigned char value, unsigned __int64 count);
void __stosq(unsigned __int64 *to, unsigned __int64 value, unsigned __int64 count);

unsigned char __inbyte(unsigned short port);
unsigned short __inword(unsigned short port);
unsigned long __indword(unsigned short port);
void __inbytestring(unsigned short port, unsigned char *buffer, unsigned long count);
void __inwordstring(unsigned short port, unsigned short *buffer, unsigned long count);
void __indwordstring(unsigned short port, unsigned long *buffer, unsigned long count);
void __outbyte(unsigned short port, unsigned char data);
void __outword(unsigned short port, unsigned short data);
void __outdword(unsigned short port, unsigned long data);
void __outbytestring(unsigned short port, unsigned char *buffer, unsigned long count);
void __outwordstring(unsigned short port, unsigned short *buffer, unsigned long count);
void __outdwordstring(unsigned short port, unsigned long *buffer, unsigned long count);
