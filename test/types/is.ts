/** Compares two types exactly. */
export type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false

/** Compiles only if the condition is true. */
export const is = <_Condition extends true>(): void => undefined
