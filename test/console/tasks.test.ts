import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { taskTable } from './tasks.ts'

test('the guide of the console has the table of tasks with their counts', () => {
  expect(readFileSync(join(import.meta.dirname, '../../docs/console.md'), 'utf8')).toContain(taskTable())
})
