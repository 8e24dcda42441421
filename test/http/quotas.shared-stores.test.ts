/** Quotas on routes of a host, over real sockets, with a store that processes share. */
import { describeQuotas } from './quotas-suite.ts'

describeQuotas('postgres', ['express'])
describeQuotas('redis', ['fastify'])
