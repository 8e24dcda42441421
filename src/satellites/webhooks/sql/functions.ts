/**
 * Dispatching, claiming and settling, each one statement over many deliveries. They are functions in the database so that each
 * is one round trip, and so that claiming can hold a lock over several statements: whoever claims sees what the one before has
 * taken, and bounds are exact over all processes.
 *
 * Time is the server's, moved by `shift_ms` (0 but in tests): processes need not agree on it.
 */
import { claiming } from './claim.ts'
import { dispatching } from './dispatch.ts'
import { onTheirWay } from './settings.ts'
import { settling } from './settle.ts'

export { CHANNEL } from './settings.ts'

export const functions = [onTheirWay, dispatching, claiming, settling].join('\n')
