import { AsyncLocalStorage } from 'node:async_hooks'
import { expect, test } from 'vitest'
import { Batcher } from './batcher.ts'
import { currentContext, enterContext, HOST, SYSTEM } from './context.ts'

const span = new AsyncLocalStorage<string>()

const inRequestOf = <T>(tenantId: string, work: () => T): T =>
  span.run(tenantId, () =>
    enterContext({ requestId: `of ${tenantId}`, actor: HOST, ip: '198.51.100.7', tenantId }, work),
  )

const seenHere = () => ({ span: span.getStore(), tenantId: currentContext().tenantId, context: currentContext() })

test('a batch runs outside of the contexts of its callers and of its creator', async () => {
  const batches: (readonly string[])[] = []
  const batcher = inRequestOf('maker', () => {
    return new Batcher(
      async (items: readonly string[]) => {
        batches.push(items)
        return items.map(seenHere)
      },
      { maxItems: 2 },
    )
  })
  const results = await Promise.all(
    ['first', 'second', 'third'].map((name) =>
      inRequestOf(name, async () => {
        const seen = await batcher.add(name)
        return { seen, afterwards: span.getStore() }
      }),
    ),
  )
  expect(batches).toEqual([['first', 'second'], ['third']])
  const nothing = { span: undefined, tenantId: undefined, context: { requestId: null, actor: SYSTEM, ip: null } }
  expect(results).toEqual([
    { seen: nothing, afterwards: 'first' },
    { seen: nothing, afterwards: 'second' },
    { seen: nothing, afterwards: 'third' },
  ])
})

test('a failure rejects all items of its batch and no later item', async () => {
  const batcher = new Batcher(
    async (items: readonly number[]) => {
      if (items.includes(2)) throw new Error('two')
      return items
    },
    { maxItems: 2 },
  )
  const outcomes = await Promise.allSettled([1, 2, 3].map((item) => batcher.add(item)))
  expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'fulfilled'])
  await batcher.idle()
})
