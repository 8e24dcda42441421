/**
 * What `source` yields until `signal` aborts: then it throws the signal's reason, also while the source is at something that does
 * not end. A source that is left before its end is told to return; it is waited for only when nothing was aborted.
 */
export async function* abortable<T>(source: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T, void, undefined> {
  signal.throwIfAborted()
  const iterator = source[Symbol.asyncIterator]()
  let hasEnded = false
  const step = async () => {
    hasEnded = true // one that throws has ended
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
      // What it says of its end concerns nobody any more.
      const returned = Promise.resolve(iterator.return?.()).catch(() => undefined)
      if (!signal.aborted) await returned
    }
  }
}

/** A listener for each step, taken away with it: on a signal that lives long they would gather. */
function orAborted<T>(step: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason)
    signal.addEventListener('abort', onAbort)
    step.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}
