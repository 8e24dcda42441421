/**
 * Runs a function for each item, several concurrently, in their order. It starts no further item after `signal` aborts or an item
 * fails, and throws that failure after all running items have ended.
 */
export async function forEachConcurrent<Item>(
  items: readonly Item[],
  concurrency: number,
  work: (item: Item, index: number) => Promise<void>,
  signal?: AbortSignal,
): Promise<void> {
  const entries = items.entries()
  const failures: unknown[] = []
  const worker = async () => {
    for (const [index, item] of entries) {
      if (failures.length > 0 || signal?.aborted) return
      try {
        await work(item, index)
      } catch (error) {
        failures.push(error)
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, worker))
  if (failures.length > 0) throw failures[0]
}

/**
 * Yields the results of a function for each item as they arrive, several concurrently. Reads items only as it starts them. It starts no
 * further item after `signal` aborts, an item fails or cannot be read, and throws that failure after all running items have ended.
 */
export async function* mapConcurrent<Item, Result>(
  items: AsyncIterable<Item> | Iterable<Item>,
  concurrency: number,
  work: (item: Item) => Promise<Result>,
  signal?: AbortSignal,
): AsyncGenerator<Result, void> {
  const running = new Set<Promise<void>>()
  const results: Result[] = []
  const failures: unknown[] = []
  const start = (item: Item) => {
    const one: Promise<void> = work(item)
      .then(
        (result) => void results.push(result),
        (error: unknown) => void failures.push(error),
      )
      .finally(() => running.delete(one))
    running.add(one)
  }
  const mayStart = () => failures.length === 0 && !signal?.aborted
  try {
    try {
      for await (const item of items) {
        if (!mayStart()) break
        start(item)
        while (running.size >= concurrency) await Promise.race(running)
        yield* results.splice(0)
      }
    } catch (error) {
      failures.push(error) // of reading the items; the running ones have results
    }
    while (running.size > 0) {
      await Promise.race(running)
      yield* results.splice(0)
    }
  } finally {
    await Promise.all(running)
  }
  yield* results.splice(0)
  if (failures.length > 0) throw failures[0]
}
