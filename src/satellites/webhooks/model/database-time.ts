/** Difference between the configured clock and the system clock. The database adds it to its own clock, which decides when work is due. */
import type { Clock } from '../../../kernel/base/clock.ts'

export const shiftMs = (clock: Clock): number => clock.now().getTime() - Date.now()
