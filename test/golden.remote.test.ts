/**
 * Compares output of commands on a remote service with the golden files of the same commands on the database. The service listens on
 * loopback.
 */
import { beforeAll, describe, expect, test } from 'vitest'
import { runRemotely } from '../src/cli/remote/caller.ts'
import { DEFAULT_PREFIX } from '../src/http/app.ts'
import { type NodeServer, serveNode } from '../src/http/hosts/node.ts'
import type { Command } from '../src/kernel/api/commands.ts'
import type { ProjectedCommand } from '../src/kernel/api/projection.ts'
import { type Api, TOKENS } from './contract/calls.ts'
import type { RunCommand } from './contract/printed.ts'
import { besideWorker, useGolden, withoutWorker } from './golden.fixture.ts'

const here = useGolden()

const isProjected = (command: Command | undefined): command is ProjectedCommand =>
  command !== undefined && 'runWith' in command

const commandOf = (name: string) => here.commands.find((one) => one.name === name)
const isRemote = ([name]: readonly [string, unknown]) => isProjected(commandOf(name))

/** On the database such a command can do the job itself. */
function waits([name]: readonly [string, unknown]): boolean {
  const command = commandOf(name)
  const form = isProjected(command) ? command.operation.command : undefined
  return typeof form === 'object' && form.wait !== undefined
}

const remote = [...withoutWorker, ...besideWorker].filter(isRemote)

/** Serves an API on loopback. Returns a function that runs a command on it. */
async function served({ http }: Api): Promise<{ run: RunCommand; server: NodeServer }> {
  const server = await serveNode(http, { port: 0, host: '127.0.0.1' })
  const target = { url: server.url + DEFAULT_PREFIX, token: TOKENS.admin, source: 'a test' }
  const run: RunCommand = async (command, input) => {
    if (!isProjected(command)) expect.fail(command.name)
    await runRemotely(command, target, input)
  }
  return { run, server }
}

describe('a service without a worker', () => {
  let service: Awaited<ReturnType<typeof served>>
  beforeAll(async () => {
    service = await served(here.runner.api)
    return () => service.server.close(1_000)
  })

  test.each(remote.filter((one) => !waits(one)))('%s prints what it prints on the database', (name, one) =>
    here.heldBy(here.runner.api, name, one, service.run),
  )
})

describe('a service with a worker', () => {
  let worker: Api
  let service: Awaited<ReturnType<typeof served>>
  beforeAll(async () => {
    worker = await here.runner.open({ role: 'all' })
    service = await served(worker)
    return async () => {
      await service.server.close(1_000)
      await worker.tenancy.stop()
    }
  })

  test.each(remote.filter(waits))('%s waits for the job, and prints what it prints on the database', (name, one) =>
    here.heldBy(worker, name, one, service.run),
  )
})
