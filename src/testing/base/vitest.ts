/** Module type of Vitest, which a suite loads when it is called. */
export type Vitest = typeof import('vitest')
