/** Adds the stack of the host to errors of statements, which start in a socket. */

/** Kysely and ORMs add frames between the statement and the host's line. */
const FRAMES = 50

/**
 * Returns the error with the stack of the awaiting code. Called in the `catch` of an async function, so successful
 * statements have no cost. The original stack is `error.cause.stack`, unless the error has a cause.
 */
export function traced(error: unknown): unknown {
  if (!(error instanceof Error) || !Object.isExtensible(error)) return error
  if (error.cause === undefined) {
    const cause = Object.assign(new Error(error.message), { name: error.name, stack: error.stack })
    Object.defineProperty(error, 'cause', { value: cause, writable: true, configurable: true, enumerable: false })
  }
  const { stackTraceLimit } = Error
  if (stackTraceLimit > 0) Error.stackTraceLimit = Math.max(stackTraceLimit, FRAMES)
  Error.captureStackTrace(error, traced)
  Error.stackTraceLimit = stackTraceLimit
  return error
}
