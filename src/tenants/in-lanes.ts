/** Work on each of many, several at a time, in their order. Stops taking more when `signal` aborts. */
export async function inLanes<Item>(
  items: readonly Item[],
  lanes: number,
  work: (item: Item, index: number) => Promise<void>,
  signal?: AbortSignal,
): Promise<void> {
  const entries = items.entries()
  const lane = async () => {
    for (const [index, item] of entries) {
      if (signal?.aborted) return
      await work(item, index)
    }
  }
  await Promise.all(Array.from({ length: Math.min(lanes, items.length) }, lane))
}
