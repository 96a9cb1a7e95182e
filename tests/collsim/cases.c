/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The cases. A name begins with the paper that has it; "net-": common faults of networks. */
#include "tests/collsim/scenario.h"

#define GPT    .topology = TOPOLOGY_STAR, .ranks = 16, .gpus = 2, .least = 8, .multiple = 4
#define MOE    .topology = TOPOLOGY_STAR, .ranks = 4, .gpus = 1, .least = 3, .multiple = 1
#define SQUARE .topology = TOPOLOGY_STAR, .ranks = 4, .gpus = 1, .least = 4, .multiple = 2
#define LEAVES                                                                         \
	.topology = TOPOLOGY_LEAVES, .ranks = 8, .gpus = 1, .least = 8, .multiple = 8, \
	.telemetry = true
#define TREE                                                                             \
	.topology = TOPOLOGY_FAT_TREE, .ranks = 8, .gpus = 1, .least = 8, .multiple = 8, \
	.telemetry = true

#define CASE(case_name, what, how, wrong, ...)                                               \
	{                                                                                    \
		.name = case_name, .text = what, .program = how, .fault = wrong, __VA_ARGS__ \
	}

const struct scenario scenarios[] = {
	CASE("pulse-congestion", "flows of others take a NIC's rate", program_gpt, fault_congestion,
	     GPT),
	CASE("pulse-cpu-contention", "a host's CPU is busy: its proxies are late", program_gpt,
	     fault_cpu, GPT),
	CASE("pulse-nic-down", "a NIC dies", program_gpt, fault_nic_down, GPT),
	CASE("pulse-expert-imbalance", "one expert gets most tokens", program_hot_expert,
	     fault_hot_expert, MOE),
	CASE("pulse-pcie-contention", "a NIC sends slower, mixture of experts", program_moe,
	     fault_slow_nic, MOE),
	CASE("pulse-gpu-throttling", "a GPU computes slower", program_gpt, fault_slow_gpu, GPT),
	CASE("pulse-gpu-error", "a rank stops computing", program_gpt, fault_stopped, GPT),
	CASE("pulse-cuda-error", "a process is gone", program_gpt, fault_gone, GPT),
	CASE("pulse-cpu-throttling", "a host's CPU is slow: its proxies are late", program_gpt,
	     fault_cpu, GPT),
	CASE("pulse-pcie-downgrade", "a NIC sends slower", program_gpt, fault_slow_nic, GPT),
	CASE("pulse-cross-numa", "the NICs of a host are of the other socket", program_gpt,
	     fault_numa, GPT),
	CASE("pulse-alignment", "a rank's buffers are not aligned", program_gpt, fault_alignment,
	     GPT),
	CASE("pulse-moe-gpu-throttling", "a GPU computes slower, mixture of experts", program_moe,
	     fault_slow_gpu, MOE),
	CASE("pulse-moe-gpu-error", "a rank stops computing, mixture of experts", program_moe,
	     fault_stopped, MOE),
	CASE("pulse-moe-nic-down", "a NIC dies, mixture of experts", program_moe, fault_nic_down,
	     MOE),
	CASE("pulse-moe-congestion", "flows of others, mixture of experts", program_moe,
	     fault_congestion, MOE),
	CASE("pulse-neighbor-pcie", "a NIC sends slower, exchange among neighbours",
	     program_neighbors, fault_slow_nic, SQUARE),
	CASE("pulse-neighbor-nic-down", "a NIC dies, exchange among neighbours", program_neighbors,
	     fault_nic_down, SQUARE),
	CASE("pulse-neighbor-congestion", "flows of others, exchange among neighbours",
	     program_neighbors, fault_congestion, SQUARE),
	CASE("pulse-all-to-one", "a NIC sends slower, all to one", program_all_to_one,
	     fault_slow_nic, MOE),
	CASE("pulse-one-to-all", "flows of others at the root, one to all", program_one_to_all,
	     fault_congestion, MOE),
	CASE("dp-slow-nic", "a NIC is slower in both directions", program_data_parallel,
	     fault_slow_nic_both, LEAVES),
	CASE("dp-slow-rank", "a rank computes slower", program_data_parallel, fault_slow_gpu,
	     LEAVES),
	CASE("dp-stopped", "a rank stops computing", program_data_parallel, fault_stopped, LEAVES),
	CASE("dp-gone", "a process is gone", program_data_parallel, fault_gone, LEAVES),
	CASE("dp-nic-down", "a NIC dies", program_data_parallel, fault_nic_down, LEAVES),
	CASE("dp-cpu", "a host's proxies are late", program_data_parallel, fault_cpu, LEAVES),
	CASE("net-slow-link", "a link between switches is slow", program_gather_ring,
	     fault_slow_link, LEAVES),
	CASE("net-imbalance", "flows go over few of the equal paths", program_gather_ring,
	     fault_imbalance, LEAVES),
	CASE("net-loop", "two switches send a flow to each other", program_gather_ring, fault_loop,
	     TREE),
	CASE("net-deadlock", "four ports wait for each other", program_gather_ring, fault_deadlock,
	     TREE),
	CASE("vedrfolnir-contention", "1 to 6 flows of others meet a collective's",
	     program_gather_ring, fault_contention, TREE),
	CASE("vedrfolnir-incast", "3 to 8 flows to one node", program_gather_ring, fault_incast,
	     TREE),
	CASE("vedrfolnir-storm", "a port is paused for 10 to 100 ms", program_gather_ring,
	     fault_storm, TREE),
	CASE("vedrfolnir-backpressure", "incast beside the collective's way", program_gather_ring,
	     fault_backpressure, TREE),
	CASE("vedrfolnir-halving", "as contention, with halving and doubling", program_halving,
	     fault_contention, TREE),
	{0}};
