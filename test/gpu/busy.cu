// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// busy SECONDS MIB keeps the GPU busy with MIB MiB of its memory; busy fault accesses
// memory that it does not have, which the driver reports as an Xid error.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

__global__ void spin(float *data, size_t n) {
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	if (i >= n) return;
	float x = data[i];
	for (int k = 0; k < 2000; k++) x = x * 1.0001f + 0.5f;
	data[i] = x;
}

__global__ void fault(float *data) { data[threadIdx.x] = 1; }

static int failed(const char *what, cudaError_t err) {
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(err));
	return 1;
}

int main(int argc, char **argv) {
	if (argc == 2 && !strcmp(argv[1], "fault")) {
		fault<<<1, 32>>>((float *)0x10);
		cudaError_t err = cudaDeviceSynchronize();
		return err ? failed("fault", err) : 0;
	}
	if (argc != 3) return 2;
	size_t n = atol(argv[2]) * (1 << 20) / sizeof(float);
	float *data;
	if (cudaError_t err = cudaMalloc(&data, n * sizeof(float))) return failed("memory", err);
	cudaMemset(data, 0, n * sizeof(float));
	printf("computing\n");
	fflush(stdout);
	for (time_t end = time(0) + atol(argv[1]); time(0) < end;) {
		spin<<<(n + 255) / 256, 256>>>(data, n);
		if (cudaError_t err = cudaDeviceSynchronize()) return failed("compute", err);
	}
	return 0;
}
