import { commandsOf } from '../../kernel/api/projection.ts'
import { operations } from './operations.ts'
import { command } from './part.ts'

export const commands = [
  ...commandsOf(operations, 'tenant:impersonate', 'tenant:impersonate:list'),
  command({
    name: 'tenant:impersonate:end',
    summary: 'End an impersonation; its next request is rejected',
    arguments: [{ name: 'sessionId', summary: 'id of the impersonation', required: true }],
    run: async (impersonations, { args, terminal }) => {
      terminal.record(await impersonations.end(args.sessionId ?? ''))
    },
  }),
]
