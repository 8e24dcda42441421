/** The help, `?`: every key that has an effect here. */
import { useMemo } from 'react'
import { Dialog } from '../components/dialog.tsx'
import { keyText } from '../components/key-text.ts'
import { useStore } from '../data/store.ts'
import { current } from '../routing/current.ts'
import { actionsOf, globalKeys, screens } from '../routing/registry.ts'
import { helpStore, isMac, KEYS, setSingleKeys, singleKeysStore } from './keys.ts'
import { text } from './text.ts'

type Line = readonly [keys: readonly string[], title: string]

const LISTS = ['j', 'k', 'o', 'x']

export function Help() {
  const isOpen = useStore(helpStore)
  return isOpen ? <OpenHelp /> : null
}

function OpenHelp() {
  const isOn = useStore(singleKeysStore)
  const groups = useMemo(groupsOfKeys, [])
  return (
    <Dialog title={text.keys} isWide onClose={() => helpStore.set(false)}>
      <div className="key-groups">
        {groups.map(([title, lines]) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl>
              {lines.map(([keys, title]) => (
                <div key={`${keys} ${title}`}>
                  <dt>{title}</dt>
                  <dd>
                    {keys.map((key, index) => (
                      <span key={key}>
                        {index > 0 && <span className="faint"> {text.followedBy} </span>}
                        <kbd>{keyText(key)}</kbd>
                      </span>
                    ))}
                  </dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <div className="field box">
        <input
          id="single-keys"
          type="checkbox"
          checked={isOn}
          aria-describedby="single-keys-hint"
          onChange={(event) => setSingleKeys(event.target.checked)}
        />
        <label className="label" htmlFor="single-keys">
          {text.singleKeys}
        </label>
        <p className="hint" id="single-keys-hint">
          {text.singleKeysHint}
        </p>
      </div>
    </Dialog>
  )
}

function groupsOfKeys(): [string, Line[]][] {
  const own = Object.entries(KEYS).map(([key, { title }]): Line => [[key], title])
  const isOfLists = ([[key = '']]: Line) => LISTS.includes(key)
  const goto = screens().flatMap(({ key, title }): Line[] => (key ? [[['g', key], title]] : []))
  const present = current()
  const actions = present ? actionsOf(present.kind, present.object) : []
  const controls = [...document.querySelectorAll<HTMLElement>('[data-key]')].map(
    (element): Line => [[element.dataset.key ?? ''], element.getAttribute('aria-label') ?? element.innerText],
  )
  const groups: [string, Line[]][] = [
    [
      text.general,
      [
        [[isMac ? '⌘ K' : 'Ctrl K'], text.palette],
        ...own.filter((line) => !isOfLists(line)),
        ...globalKeys().map(({ key, title }): Line => [[`Shift ${key}`], title]),
        [['Escape'], text.close],
      ],
    ],
    [text.lists, [...own.filter(isOfLists), [['Enter'], text.openRow]]],
    [text.screens, [[['g', 'h'], text.home], ...goto]],
    [text.onObject, actions.flatMap(({ key, title }): Line[] => (key ? [[[key], title]] : []))],
    [text.onPage, controls],
  ]
  return groups.filter(([, lines]) => lines.length > 0)
}
