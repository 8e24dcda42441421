/**
 * Yields the values of `source` until `signal` aborts, and then throws the signal's reason, even while `source` is
 * blocked.
 *
 * When the consumer stops early, `source.return()` is called. It is awaited only if the signal has not aborted.
 */
export async function* abortable<T>(source: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T, void, undefined> {
  signal.throwIfAborted()
  const iterator = source[Symbol.asyncIterator]()
  let hasEnded = false
  const step = async () => {
    hasEnded = true // an iterator that throws has ended
    const next = await iterator.next()
    hasEnded = next.done === true
    return next
  }
  try {
    for (;;) {
      signal.throwIfAborted()
      const next = await orAborted(step(), signal)
      if (next.done) return
      yield next.value
    }
  } finally {
    if (!hasEnded || signal.aborted) {
      // The consumer has stopped, so an error of `return` is ignored.
      const returned = Promise.resolve(iterator.return?.()).catch(() => undefined)
      if (!signal.aborted) await returned
    }
  }
}

/**
 * Adds one listener for each step and removes it afterwards. Otherwise listeners would accumulate on a long-lived
 * signal.
 */
function orAborted<T>(step: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason)
    signal.addEventListener('abort', onAbort)
    step.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}
