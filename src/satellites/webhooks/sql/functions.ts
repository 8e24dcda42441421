/**
 * Dispatching, claiming and settling, each one statement over many deliveries. They are functions in the database so that each
 * is one round trip, and so that claiming can hold a lock over several statements: whoever claims sees what the one before has
 * taken, and bounds are exact over all processes.
 *
 * Time is the server's, moved by `shift_ms` (0 but in tests): processes need not agree on it.
 */
import { claiming, claimingReleased } from './claim.ts'
import { dispatching } from './dispatch.ts'
import { dispatchingReleased, settlingReleased } from './released.ts'
import { onTheirWay } from './settings.ts'
import { settling } from './settle.ts'

export { CHANNEL } from './settings.ts'

export const functions = [onTheirWay, dispatchingReleased, claimingReleased, settlingReleased].join('\n')

/** In place of those before, under the same names: two versions of the program run beside each other with either. */
export const replacedFunctions = [dispatching, claiming, settling].join('\n')
