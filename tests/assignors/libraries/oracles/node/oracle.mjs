// The assignors of kafkajs and @platformatic/kafka: reads cases from standard input, one JSON object a line, and answers
// each with {"assignment"} or {"error"}. It runs in the folder into which both were installed.
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { join } from 'node:path'

const folder = process.argv[2]
const require = createRequire(join(folder, 'package.json'))
const kafkajs = require('kafkajs/src/consumer/assigners/roundRobinAssigner')
const { MemberAssignment } = require('kafkajs/src/consumer/assignerProtocol')
// What the package does not export is imported by its path.
const assigners = 'node_modules/@platformatic/kafka/dist/clients/consumer/partitions-assigners.js'
const { roundRobinAssigner } = await import(pathToFileURL(join(folder, assigners)))

async function ofKafkajs({ topics, members, leader }) {
  const known = new Map(topics.map(({ name, partitions }) => [name, partitions]))
  const numbers = topic => Array.from({ length: known.get(topic) ?? 0 }, (_, partitionId) => ({ partitionId }))
  const assigner = kafkajs({ cluster: { findTopicPartitionMetadata: numbers } })
  const leading = members.find(({ member_id: id }) => id === leader)
  const rows = await assigner.assign({
    members: members.map(({ member_id: memberId }) => ({ memberId })),
    topics: leading.topics
  })
  return rows.map(row => [row.memberId, Object.entries(MemberAssignment.decode(row.memberAssignment).assignment)])
}

function ofPlatformatic({ topics, members, leader }) {
  const metadata = { topics: new Map(topics.map(({ name, partitions }) => [name, { partitionsCount: partitions }])) }
  const rows = new Map(members.map(member => [member.member_id, { topics: member.topics }]))
  const found = roundRobinAssigner(leader, rows, new Set(rows.get(leader).topics), metadata)
  return found.map(row => [row.memberId, [...row.assignments.values()].map(one => [one.topic, one.partitions])])
}

for await (const line of createInterface({ input: process.stdin })) {
  try {
    const one = JSON.parse(line)
    const rows = one.library === 'kafkajs' ? await ofKafkajs(one) : ofPlatformatic(one)
    const assignment = Object.fromEntries(rows.map(([id, parts]) => [id, Object.fromEntries(parts)]))
    console.log(JSON.stringify({ assignment }))
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }))
  }
}
