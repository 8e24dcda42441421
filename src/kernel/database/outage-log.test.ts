import pg from 'pg'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { DependencyUnavailable } from '../base/errors.ts'
import { createLogger } from '../base/logger.ts'
import { OutageLog } from './outage-log.ts'

const stateOf = (code: string) => Object.assign(new pg.DatabaseError(code, 0, 'error'), { code })
const readOnly = stateOf('25006')
const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })

let lines: { msg: string; level: number }[]
let isAvailable: boolean
let canStore: boolean
let outage: OutageLog

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  lines = []
  isAvailable = false
  canStore = false
  outage = new OutageLog({
    log: createLogger({ level: 'debug', write: (line) => void lines.push(JSON.parse(line)) }),
    probe: async (statement) => {
      if (!isAvailable) throw refused
      if (statement !== 'select 1' && !canStore) throw readOnly
    },
  })
  outage.connected()
})
afterEach(() => {
  outage.close()
  vi.useRealTimers()
})

const seen = () => lines.map(({ level, msg }) => `${level} ${msg}`)
const START = '40 the connection to the backoffice database was lost; connecting again'
const END = '30 the backoffice database can be reached again'
const STORAGE_START = '40 the backoffice database cannot store data'
const STORAGE_END = '30 the backoffice database can store data again'

test('an outage has one line at its start and one at its end', async () => {
  outage.note(refused)
  outage.note(refused)
  await vi.advanceTimersByTimeAsync(20_000)
  isAvailable = true
  await vi.advanceTimersByTimeAsync(1_000)
  expect(seen()).toEqual([START, END])
  expect(lines[1]).toMatchObject({ seconds: 21 })
})

test('a second outage has lines, too', async () => {
  isAvailable = true
  for (let n = 0; n < 2; n++) {
    outage.note(refused)
    await vi.advanceTimersByTimeAsync(1_000)
  }
  expect(seen()).toEqual([START, END, START, END])
})

test('lines about errors of the outage have the level debug, also if it is their cause', async () => {
  outage.note(refused)
  const caused = DependencyUnavailable('no', { cause: refused })
  outage.log.warn({ err: refused, job: 'Fence' }, 'a job failed')
  outage.log.error({ err: caused }, 'a request failed')
  outage.log.error(refused, 'bare')
  expect(seen()).toEqual([START, '20 a job failed', '20 a request failed', '20 bare'])
  expect(lines[1]).toMatchObject({ job: 'Fence', err: { message: refused.message } })
})

test('lines about other errors, and lines without an error, keep their level', async () => {
  outage.note(refused)
  outage.log.warn({ err: new Error('a fault') }, 'other')
  outage.log.error('text')
  outage.log.warn({ n: 1 }, 'fields')
  expect(seen()).toEqual([START, '40 other', '50 text', '40 fields'])
})

test('lines about another unavailable dependency keep their level', async () => {
  outage.note(refused)
  const other = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
  outage.log.warn({ err: other }, 'a placement')
  outage.log.warn({ err: DependencyUnavailable('no', { cause: other }) }, 'backup storage')
  outage.log.error({ err: DependencyUnavailable('not tried') }, 'the store')
  expect(seen()).toEqual([START, '40 a placement', '40 backup storage', '50 the store'])
})

test('a marked error starts no outage, and has the level debug during one', async () => {
  const slow = new Error('Query read timeout')
  outage.mark(slow)
  outage.log.warn({ err: slow }, 'before')
  outage.note(refused)
  outage.log.warn({ err: slow }, 'during')
  expect(seen()).toEqual(['40 before', START, '20 during'])
})

test('lines about an unavailable database keep their level without an outage', async () => {
  outage.log.warn({ err: refused }, 'a placement is unavailable')
  outage.note(new Error('a fault of a statement'))
  outage.note(undefined)
  expect(seen()).toEqual(['40 a placement is unavailable'])
})

test('an outage at the close has no line of its end', async () => {
  outage.note(refused)
  outage.close()
  isAvailable = true
  await vi.advanceTimersByTimeAsync(5_000)
  outage.note(refused)
  expect(seen()).toEqual([START])
})

test.each([
  ['25006', 'database is read-only'],
  ['53100', 'disk is full'],
])(
  'state %s of a statement has one line at its start and one at its end, and its errors have the level debug',
  async (code, reason) => {
    isAvailable = true
    const failed = stateOf(code)
    outage.note(failed)
    outage.note(failed)
    outage.log.warn({ err: failed }, 'a job failed')
    outage.log.warn({ err: DependencyUnavailable('no', { cause: failed }) }, 'a request failed')
    await vi.advanceTimersByTimeAsync(20_000)
    canStore = true
    await vi.advanceTimersByTimeAsync(1_000)
    outage.log.warn({ err: failed }, 'a later job failed')
    expect(seen()).toEqual([
      STORAGE_START,
      '20 a job failed',
      '20 a request failed',
      STORAGE_END,
      '40 a later job failed',
    ])
    expect(lines[0]).toMatchObject({ reason })
    expect(lines[3]).toMatchObject({ seconds: 21 })
  },
)

test('a state continues while statements fail, although its probe succeeds', async () => {
  isAvailable = true
  canStore = true
  for (let half = 0; half < 20; half++) {
    outage.note(readOnly)
    await vi.advanceTimersByTimeAsync(500)
  }
  expect(seen()).toEqual([STORAGE_START])
  await vi.advanceTimersByTimeAsync(2_000)
  expect(seen()).toEqual([STORAGE_START, STORAGE_END])
})

test('a server that stops while it is read-only has the lines of both outages', async () => {
  outage.note(readOnly)
  outage.note(refused)
  await vi.advanceTimersByTimeAsync(3_000)
  isAvailable = true
  await vi.advanceTimersByTimeAsync(3_000)
  canStore = true
  await vi.advanceTimersByTimeAsync(1_000)
  expect(seen()).toEqual([STORAGE_START, START, END, STORAGE_END])
})

test('an error of memory or of one file starts no outage', async () => {
  outage.note(stateOf('53200'))
  outage.note(stateOf('58030'))
  expect(seen()).toEqual([])
})

test('lines about timeouts keep their level while the server responds and is read-only', async () => {
  const slow = new Error('Query read timeout')
  outage.mark(slow)
  outage.note(readOnly)
  outage.log.warn({ err: slow }, 'a slow statement')
  expect(seen()).toEqual([STORAGE_START, '40 a slow statement'])
})
