/** Dialog: revokes an API token. */
import { Confirm } from '../../components/confirm.tsx'
import { type Item, useAction } from '../../data/queries.ts'
import type { ActionProps } from '../../module.ts'
import { text } from './text.ts'

export default function Revoke({ target: { id, name }, onClose }: ActionProps<Item<'tokens.list'>>) {
  const input = { params: { tokenId: id } }
  const revoke = useAction('tokens.delete', { done: text.revoked(name), onDone: onClose, showsProblem: true })
  return (
    <Confirm
      title={text.revokeTitle(name)}
      confirm={text.revoke}
      isRunning={revoke.isRunning}
      problem={revoke.problem}
      call={{ name: 'tokens.delete', input }}
      onConfirm={() => revoke.run(input)}
      onClose={onClose}
    >
      <p>{text.revokeText}</p>
    </Confirm>
  )
}
