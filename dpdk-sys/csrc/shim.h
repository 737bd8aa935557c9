/* What bindgen reads: DPDK's headers, and plain functions in place of the static inline ones (and
 * thread-local variables) that lodestone::dpdk uses. */
#ifndef LODESTONE_SHIM_H
#define LODESTONE_SHIM_H

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>

/* rte_errno of the calling thread. */
int lodestone_rte_errno(void);

/* Id of the calling thread, or LCORE_ID_ANY (UINT32_MAX) if it is not registered. */
unsigned int lodestone_lcore_id(void);

struct rte_mbuf *lodestone_pktmbuf_alloc(struct rte_mempool *pool);

/* All of them, or none and a negative number. */
int lodestone_pktmbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs,
				 unsigned int count);

/* Frees every segment. */
void lodestone_pktmbuf_free(struct rte_mbuf *mbuf);

uint16_t lodestone_eth_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs,
				uint16_t count);

uint16_t lodestone_eth_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs,
				uint16_t count);

#endif
