/** Quotas on routes of a host, over real sockets, with a store in memory. */
import { describeQuotas } from './quotas-suite.ts'

// Each framework and each store is in one of quotas.test.ts and quotas.shared-stores.test.ts, the other pairs in quotas.slow.test.ts,
// properties of one framework in quotas.frameworks.test.ts.
describeQuotas('memory', ['node', 'hono'])
