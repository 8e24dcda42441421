/** Dialog: ends a browser session. */
import { Confirm } from '../../components/confirm.tsx'
import { type Item, useAction } from '../../data/queries.ts'
import type { ActionProps } from '../../module.ts'
import { text } from './text.ts'

export default function End({ target: { id, name }, onClose }: ActionProps<Item<'sessions.list'>>) {
  const input = { params: { sessionId: id } }
  const end = useAction('sessions.delete', { done: text.ended(name), onDone: onClose, showsProblem: true })
  return (
    <Confirm
      title={text.endTitle(name)}
      confirm={text.end}
      isRunning={end.isRunning}
      problem={end.problem}
      call={{ name: 'sessions.delete', input }}
      onConfirm={() => end.run(input)}
      onClose={onClose}
    >
      <p>{text.endText}</p>
    </Confirm>
  )
}
