/** The current time as a dependency. Tests pass a clock that they advance. */
export interface Clock {
  now(): Date
}

export const systemClock: Clock = { now: () => new Date() }
