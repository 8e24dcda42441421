/** Compares output of commands that need a worker with golden files, with `--json` and as text. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Api } from './contract/calls.ts'
import { besideWorker, useGolden } from './golden.fixture.ts'

const here = useGolden()

let worker: Api
beforeAll(async () => {
  worker = await here.runner.open({ role: 'all' })
})
afterAll(() => worker?.tenancy.stop())

test.each(besideWorker)('%s, with --json', (name, one) => here.held(worker, name, one))

test.each(besideWorker)('%s prints text', async (name, one) => expect(await here.text(worker, name, one)).not.toBe(''))
