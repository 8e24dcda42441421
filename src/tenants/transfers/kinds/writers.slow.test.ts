/** Writers in two processes during a move. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { eventually } from '../../../testing/base/tenancy.ts'
import type { Written } from '../transfer-process.fixture.ts'
import {
  idle,
  NOTES,
  openProcessesEnvironment,
  type ProcessesEnvironment,
  send,
} from '../transfer-processes.fixture.ts'

let environment: ProcessesEnvironment
beforeAll(async () => {
  environment = await openProcessesEnvironment(inject('postgresUrl'))
})
afterAll(() => environment?.end())

test.each([
  ['schema-pg', 'database-pg'],
  ['database-pg', 'rowscope-pg'],
  ['rowscope-pg', 'schema-pg'],
])('a move from %s to %s keeps each acknowledged write once, and no rejected write', async (from, to) => {
  const id = `writers-${from.slice(0, 3)}`
  await environment.install(id, from)
  const writers = [await environment.start(), await environment.start()]
  for (const [index, writer] of writers.entries()) await send(writer, { write: id, as: `w${index}` })
  await eventually(async () => expect((await environment.notes(id)).length).toBeGreaterThan(NOTES.length + 20))

  const { transfer } = await environment.transfers.move(id, { isolation: to, placement: 'other' })
  await environment.transfers.work(transfer.id, idle)
  expect(await environment.transfers.get(id, transfer.id)).toMatchObject({ state: 'completed' })
  const atTheSwitch = (await environment.notes(id)).length
  await eventually(async () => expect((await environment.notes(id)).length).toBeGreaterThan(atTheSwitch + 20))
  const all: Written[] = await Promise.all(writers.map((writer) => send(writer, { stop: true })))
  for (const writer of writers) await writer.kill('SIGTERM')

  const found = (await environment.notes(id)).filter((text) => !NOTES.includes(text))
  expect(new Set(found).size).toBe(found.length)
  const there = new Set(found)
  const acknowledged = all.flatMap((written) => written.acknowledged)
  expect(acknowledged.filter((text) => !there.has(text))).toEqual([])
  expect(all.flatMap((written) => written.refused).filter((text) => there.has(text))).toEqual([])
  const unknown = new Set(all.flatMap((written) => written.unknown))
  expect(found.filter((text) => !unknown.has(text)).sort()).toEqual(
    acknowledged.filter((text) => !unknown.has(text)).sort(),
  )
})
