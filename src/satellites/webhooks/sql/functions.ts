/**
 * The SQL functions of webhooks: dispatch, claim and settle many deliveries in one round trip each. A claim holds a lock over several
 * statements, so bounds are exact over all processes. Time is the server's, shifted by `shift_ms` (0 except in tests).
 */
import { claiming } from './claim.ts'
import { dispatching } from './dispatch.ts'
import { onTheirWay } from './settings.ts'
import { settling } from './settle.ts'

export { CHANNEL } from './settings.ts'

export const functions = [onTheirWay, dispatching, claiming, settling].join('\n')
