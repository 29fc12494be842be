// The assignors of sarama, kafka-go and franz-go: reads cases from standard input, one JSON object a line, and answers
// each with {"assignment"} or {"error"}.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	_ "unsafe" // for sortJoinMembers

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type assignment map[string]map[string][]int

type groupCase struct {
	Library  string
	Assignor string
	Leader   string
	Topics   []struct {
		Name       string
		Partitions int
	}
	Members []struct {
		MemberID   string  `json:"member_id"`
		InstanceID *string `json:"group_instance_id"`
		Topics     []string
		Owned      map[string][]int32
		Generation *int32
	}
}

func main() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	answers := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		found, err := answer(line)
		if err != nil {
			_ = answers.Encode(map[string]string{"error": err.Error()})
			continue
		}
		_ = answers.Encode(map[string]assignment{"assignment": found})
	}
}

func answer(line []byte) (assignment, error) {
	var one groupCase
	if err := json.Unmarshal(line, &one); err != nil {
		return nil, err
	}
	switch one.Library {
	case "kafka-go":
		return ofKafkaGo(&one)
	case "sarama":
		return ofSarama(&one)
	case "franz-go":
		return ofFranzGo(&one)
	}
	return nil, fmt.Errorf("no library %s", one.Library)
}

func ofKafkaGo(one *groupCase) (assignment, error) {
	balancers := map[string]kafka.GroupBalancer{
		"range": kafka.RangeGroupBalancer{}, "roundrobin": kafka.RoundRobinGroupBalancer{},
	}
	var members []kafka.GroupMember
	for _, member := range one.Members {
		members = append(members, kafka.GroupMember{ID: member.MemberID, Topics: member.Topics})
	}
	var partitions []kafka.Partition
	for _, topic := range one.Topics {
		for number := 0; number < topic.Partitions; number++ {
			partitions = append(partitions, kafka.Partition{Topic: topic.Name, ID: number})
		}
	}
	return assignment(balancers[one.Assignor].AssignGroups(members, partitions)), nil
}

func ofSarama(one *groupCase) (assignment, error) {
	strategies := map[string]sarama.BalanceStrategy{
		"range": sarama.NewBalanceStrategyRange(), "roundrobin": sarama.NewBalanceStrategyRoundRobin(),
		"sticky": sarama.NewBalanceStrategySticky(), "cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky(),
	}
	members, wanted := map[string]sarama.ConsumerGroupMemberMetadata{}, map[string]bool{}
	for _, member := range one.Members {
		metadata := sarama.ConsumerGroupMemberMetadata{Version: 1, Topics: member.Topics}
		generation := int32(-1)
		if member.Generation != nil {
			generation = *member.Generation
		}
		switch {
		case one.Assignor == "cooperative-sticky":
			for topic, partitions := range member.Owned {
				owned := &sarama.OwnedPartition{Topic: topic, Partitions: partitions}
				metadata.OwnedPartitions = append(metadata.OwnedPartitions, owned)
			}
			metadata.UserData = binary.BigEndian.AppendUint32(nil, uint32(generation))
		case one.Assignor == "sticky" && member.Owned != nil:
			// What it was assigned, as its leader wrote it then.
			data, err := strategies["sticky"].AssignmentData(member.MemberID, member.Owned, generation)
			if err != nil {
				return nil, err
			}
			metadata.UserData = data
		}
		members[member.MemberID] = metadata
		for _, topic := range member.Topics {
			wanted[topic] = true
		}
	}
	topics := map[string][]int32{}
	for _, topic := range one.Topics {
		if wanted[topic.Name] {
			topics[topic.Name] = []int32{}
			for number := 0; number < topic.Partitions; number++ {
				topics[topic.Name] = append(topics[topic.Name], int32(number))
			}
		}
	}
	plan, err := strategies[one.Assignor].Plan(members, topics)
	return fromInt32(plan), err
}

//go:linkname sortJoinMembers github.com/twmb/franz-go/pkg/kgo.sortJoinMembers
func sortJoinMembers(members []kmsg.JoinGroupResponseMember)

func ofFranzGo(one *groupCase) (assignment, error) {
	balancers := map[string]kgo.GroupBalancer{
		"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(), "sticky": kgo.StickyBalancer(),
		"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	}
	balancer := balancers[one.Assignor]
	var members []kmsg.JoinGroupResponseMember
	for _, member := range one.Members {
		generation := int32(-1)
		if member.Generation != nil {
			generation = *member.Generation
		}
		members = append(members, kmsg.JoinGroupResponseMember{
			MemberID:         member.MemberID,
			InstanceID:       member.InstanceID,
			ProtocolMetadata: balancer.JoinGroupMetadata(member.Topics, member.Owned, generation),
		})
	}
	sortJoinMembers(members)
	topics := map[string]int32{}
	for _, topic := range one.Topics {
		topics[topic.Name] = int32(topic.Partitions)
	}
	group, subscribed, err := balancer.MemberBalancer(members)
	if err != nil {
		return nil, err
	}
	for name := range topics {
		if _, isWanted := subscribed[name]; !isWanted {
			delete(topics, name)
		}
	}
	plan, err := group.(kgo.GroupMemberBalancerOrError).BalanceOrError(topics)
	if err != nil {
		return nil, err
	}
	return fromInt32(plan.(*kgo.BalancePlan).AsMemberIDMap()), nil
}

func fromInt32(plan map[string]map[string][]int32) assignment {
	found := assignment{}
	for member, topics := range plan {
		found[member] = map[string][]int{}
		for topic, partitions := range topics {
			for _, number := range partitions {
				found[member][topic] = append(found[member][topic], int(number))
			}
		}
	}
	return found
}
