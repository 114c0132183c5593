TEXT _rt0_amd64_windows(SB), 4, $0
	LEAQ runtime·Types(SB), AX
	JMP runtime·entry(SB)
TEXT runtime·assembled(SB), 4, $0
again:
	ADDQ AX, BX
	DECQ AX
	JNZ again
	RET
