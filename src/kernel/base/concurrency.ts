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
