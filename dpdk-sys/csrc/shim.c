#include "shim.h"

int lodestone_rte_errno(void)
{
	return rte_errno;
}

unsigned int lodestone_lcore_id(void)
{
	return rte_lcore_id();
}

struct rte_mbuf *lodestone_pktmbuf_alloc(struct rte_mempool *pool)
{
	return rte_pktmbuf_alloc(pool);
}

int lodestone_pktmbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs,
				 unsigned int count)
{
	return rte_pktmbuf_alloc_bulk(pool, mbufs, count);
}

void lodestone_pktmbuf_free(struct rte_mbuf *mbuf)
{
	rte_pktmbuf_free(mbuf);
}

uint16_t lodestone_eth_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs,
				uint16_t count)
{
	return rte_eth_rx_burst(port, queue, mbufs, count);
}

uint16_t lodestone_eth_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs,
				uint16_t count)
{
	return rte_eth_tx_burst(port, queue, mbufs, count);
}
