/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <linux/if_vlan.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/nic/nic_int.h"

/* Without 8021q there are no VLANs, and to ask would load it. */
uint16_t nic_vlan(uint32_t ifindex)
{
	struct vlan_ioctl_args ask = {.cmd = GET_VLAN_VID_CMD};
	int fd, err;

	if (!ifindex || access("/proc/net/vlan", F_OK) || !if_indextoname(ifindex, ask.device1))
		return 0;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	err = ioctl(fd, SIOCGIFVLAN, &ask);
	close(fd);
	return err < 0 ? 0 : (uint16_t)ask.u.VID;
}
