import { Readable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { defineError } from '../base/errors.ts'
import { part } from '../part.ts'
import type { CommandInput, Terminal } from './commands.ts'
import { Page, pageOf } from './page.ts'
import { commandsOf } from './projection.ts'

const LampBroken = defineError('E_LAMP_BROKEN', 409, 'Lamp broken')

const Lamp = z.object({ id: z.string(), state: z.string() })
type Lamp = z.output<typeof Lamp>
interface House {
  readonly lamps: Lamp[]
  most: number
}

const { operation } = part<House>()

const listLamps = operation({
  name: 'lamps.list',
  method: 'GET',
  path: '/lamps',
  summary: 'List lamps',
  query: z.strictObject({ state: z.enum(['on', 'off']).optional(), q: z.string().optional(), ...Page.shape }),
  reply: pageOf(Lamp),
  handle: async ({ lamps }, { query: { state, q = '', cursor = '' } }) => {
    const found = lamps.filter((lamp) => lamp.id > cursor && (!state || lamp.state === state) && lamp.id.includes(q))
    const data = found.slice(0, 2)
    return { data, nextCursor: found.length > 2 ? (data.at(-1)?.id ?? null) : null }
  },
})

let running = 0
const switchOn = async (house: House, id: string): Promise<Lamp> => {
  house.most = Math.max(house.most, ++running)
  for (let turn = 0; turn < 20; turn++) await Promise.resolve()
  running--
  const lamp = house.lamps.find((one) => one.id === id) ?? expect.fail(`no lamp ${id}`)
  if (id.startsWith('broken')) throw LampBroken(`Lamp "${id}" is broken.`)
  lamp.state = 'on'
  return lamp
}

const switchOnLamp = (path: string) =>
  operation({
    name: 'lamps.switchOn',
    method: 'PUT',
    path,
    summary: 'Switch a lamp on',
    params: z.object({ id: z.string() }),
    body: z.strictObject({ color: z.string().optional() }),
    reply: Lamp.extend({ color: z.string().optional() }),
    command: { name: 'lamp:on', filter: listLamps, question: ({ params: { id } }) => `Switch ${id} on?` },
    handle: async (house, { params, body }) => ({ ...(await switchOn(house, params.id)), ...body }),
  })

const one = commandsOf([switchOnLamp('/lamps/{id}/on')])[0] ?? expect.fail()

const house = (...ids: string[]): House => ({ lamps: ids.map((id) => ({ id, state: 'off' })), most: 0 })

function input(given: { args?: object; options?: object; answer?: boolean }) {
  const output: unknown[][] = []
  const record =
    (kind: string) =>
    (...values: unknown[]): void =>
      void output.push([kind, ...values])
  const terminal: Terminal = {
    input: Readable.from([]),
    isJson: false,
    table: record('table'),
    list: async (values, rowOf) => {
      const all = await Array.fromAsync(values)
      output.push(['list', all.map(rowOf), all])
    },
    page: async () => undefined,
    record: record('record'),
    write: async () => undefined,
    item: async () => undefined,
    say: record('say'),
    progress: () => undefined,
    prompt: async () => undefined,
    confirm: async (question) => {
      record('confirm')(question)
      return given.answer ?? true
    },
  }
  const { args = {}, options = {} } = given
  const commandInput: CommandInput = {
    args: { ...args },
    options: { concurrency: 4, ...options },
    terminal,
    signal: new AbortController().signal,
  }
  return { output, input: commandInput }
}

async function* afterFirst<Value>(values: AsyncIterable<Value>, act: () => void) {
  let isFirst = true
  for await (const value of values) {
    if (isFirst) act()
    isFirst = false
    yield value
  }
}

describe('a command with a filter', () => {
  test('has an optional argument and the options of the filter', () => {
    expect(one.arguments).toMatchObject([{ name: 'id', required: false }])
    expect(one.options?.slice(-2)).toMatchObject([
      { flags: '--filter <query>', summary: 'instead of one, all that match this query (a=b&c=d) of state, q' },
      { flags: '--concurrency <count>', default: 4 },
    ])
  })

  test('runs for all matches on all pages after one question, and returns the first failure after the table', async () => {
    const service = house('a', 'broken', 'c', 'd', 'e')
    const { output, input: given } = input({ options: { filter: 'state=off', concurrency: 2 } })
    await expect(one.run(service, given)).rejects.toMatchObject({ code: 'E_LAMP_BROKEN' })
    expect(output.slice(0, 2)).toEqual([
      ['say', '5 match: a, broken, c, d, e'],
      ['confirm', `Run ${one.name} for all of them (5)?`],
    ])
    const [, rows, values] = output[2] as [string, { id: string }[], { id: string; result?: Lamp }[]]
    expect(rows.toSorted((a, b) => (a.id < b.id ? -1 : 1))).toEqual([
      { id: 'a', isDone: true },
      { id: 'broken', isDone: false, error: 'Lamp "broken" is broken.', code: 'E_LAMP_BROKEN' },
      ...['c', 'd', 'e'].map((id) => ({ id, isDone: true })),
    ])
    expect(values.find(({ id }) => id === 'e')?.result).toMatchObject({ id: 'e', state: 'on' })
    expect(output).toHaveLength(3)
    expect(service.most).toBe(2)
  })

  test('skips an object that no longer matches when the command reaches it', async () => {
    const service = house('a', 'b', 'c', 'd', 'e')
    const change = (id: string) => {
      const lamp = service.lamps.find((each) => each.id === id) ?? expect.fail(`no lamp ${id}`)
      lamp.state = 'on'
    }
    const { output, input: given } = input({ options: { filter: 'state=off', concurrency: 1 } })
    const { confirm, list } = given.terminal
    const terminal: Terminal = {
      ...given.terminal,
      confirm: (question) => {
        change('b')
        service.lamps.push({ id: 'f', state: 'off' }) // matches only after the question
        return confirm(question)
      },
      list: (values, rowOf) =>
        list(
          afterFirst(values, () => change('e')),
          rowOf,
        ),
    }
    await one.run(service, { ...given, terminal })
    const [, , [, rows], last] = output as [unknown, unknown, [string, object[]], unknown]
    expect(rows).toEqual(['a', 'c', 'd'].map((id) => ({ id, isDone: true })))
    expect(last).toEqual(['say', 'skipped 2 that no longer match: b, e'])
    expect(service.lamps.at(-1)).toEqual({ id: 'f', state: 'off' })
  })

  test('changes nothing without a confirmation, and asks nothing without a match', async () => {
    const service = house('a')
    const declined = input({ options: { filter: 'q=a' }, answer: false })
    await one.run(service, declined.input)
    expect(declined.output.map(([kind]) => kind)).toEqual(['say', 'confirm'])
    const none = input({ options: { filter: 'q=z' } })
    await one.run(service, none.input)
    expect(none.output).toEqual([['table', [], [], 'no match']])
    expect(service.lamps).toEqual([{ id: 'a', state: 'off' }])
  })

  test.each([
    ['without an id and a filter', {}, 'id'],
    ['with both', { args: { id: 'a' }, options: { filter: 'q=a' } }, 'id'],
    ['with an empty filter', { options: { filter: '' } }, 'filter'],
    ['with an unknown member', { options: { filter: 'color=red' } }, 'filter'],
    ['with a wrong value', { options: { filter: 'state=broken' } }, 'filter.state'],
    ['with a member twice', { options: { filter: 'q=a&q=b' } }, 'filter'],
    ['with a member of pages', { options: { filter: 'q=a&limit=1' } }, 'filter'],
  ])('is rejected %s', async (_, given, path) => {
    const service = house('a')
    const { output, input: commandInput } = input(given)
    await expect(one.run(service, commandInput)).rejects.toMatchObject({ status: 400, extras: { errors: [{ path }] } })
    expect(output).toEqual([])
  })

  test('runs for one object without the filter', async () => {
    const { output, input: given } = input({ args: { id: 'a' } })
    await one.run(house('a', 'b'), given)
    expect(output.at(-1)).toEqual(['record', { id: 'a', state: 'on' }])
  })
})

test('passes the other options to each run', async () => {
  const { output, input: given } = input({ options: { filter: 'q=a', color: 'red' } })
  await one.run(house('a'), given)
  expect(output.at(-1)?.[2]).toEqual([{ id: 'a', isDone: true, result: { id: 'a', state: 'on', color: 'red' } }])
})

test('rejects the declaration of a command with another argument', () => {
  expect(() => commandsOf([switchOnLamp('/rooms/{room}/lamps/{id}/on')])).toThrow(
    '"lamp:on" with a filter must have one argument, id',
  )
})
