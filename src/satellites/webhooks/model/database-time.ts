/**
 * When a delivery is due is decided by the database's clock, on which all processes agree. A clock that was given in place of the
 * system's (a test's) is carried there as its distance from the system's.
 */
import type { Clock } from '../../../kernel/base/clock.ts'

export const shiftMs = (clock: Clock): number => clock.now().getTime() - Date.now()
