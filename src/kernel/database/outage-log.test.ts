import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { DependencyUnavailable } from '../base/errors.ts'
import { createLogger } from '../base/logger.ts'
import { OutageLog } from './outage-log.ts'

const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })

let lines: { msg: string; level: number }[]
let isAvailable: boolean
let outage: OutageLog

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  lines = []
  isAvailable = false
  outage = new OutageLog({
    log: createLogger({ level: 'debug', write: (line) => void lines.push(JSON.parse(line)) }),
    probe: async () => {
      if (!isAvailable) throw refused
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
