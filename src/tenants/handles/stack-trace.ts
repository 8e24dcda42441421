/** Stack traces of tenants' statements: an error of the database begins in a socket, where no line of the host is to be seen. */

/** Kysely and ORMs have frames of their own between the statement and the host's line. */
const FRAMES = 50

/**
 * The error, with the stack of the code that awaits it. Called in the `catch` of an async function, so that a statement that
 * succeeds pays nothing. What the stack was before is `error.cause.stack`, unless the error has a cause.
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
