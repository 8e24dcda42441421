import { expect, test } from 'vitest'
import { readable } from './logs.ts'

const at = { time: '2026-11-21T08:31:43.120Z' }

test('readable formats a log line as one line of text, with the stack of its error below', () => {
  const line = JSON.stringify({
    level: 40,
    ...at,
    job: 'InstallTenant',
    attempt: 2,
    err: { stack: 'Error: no\n    at x' },
    msg: 'a job failed',
  })
  expect(readable(line, false)).toBe(
    '08:31:43.120 warn  a job failed  job=InstallTenant  attempt=2\n    Error: no\n        at x\n',
  )
})

test('readable escapes control characters', () => {
  expect(readable(JSON.stringify({ level: 30, ...at, name: '\u001b[2J', msg: 'a\nb' }), false)).toBe(
    '08:31:43.120 info  a\\nb  name=\\u001b[2J\n',
  )
})
